import { expect, onTestFinished, test, vi } from 'vitest';
import { ChangeListener } from '../../../server/store/connect/listen.ts';
import { emptyDatabase } from '../../helpers/postgres.ts';
import { relayTo } from '../../helpers/relay.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const fresh = shared(emptyDatabase);

test('a confirmation over its time limit ends its connection: no heartbeat is sent beside it', async () => {
  const relay = await relayTo(fresh);
  const received: string[] = [];
  const listener = new ChangeListener(relay.url, {
    async change(payload) {
      received.push(payload);
      relay.freeze();
    },
    arrived: () => {},
    alive: () => {},
    up: () => received.push('up'),
    lost: async () => relay.thaw(),
    down: (reason) => received.push(`down: ${reason}`),
  });
  vi.useFakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  onTestFinished(async () => {
    vi.useRealTimers();
    await listener.stop();
    relay.close();
  });
  listener.start();
  await until(() => received.includes('up'));
  await fresh.sql(`notify weir_changes, 'webhook:x'`);
  await until(() => received.includes('webhook:x'));
  await until(async () => {
    await vi.advanceTimersByTimeAsync(900);
    return received.length > 2;
  });
  await until(() => received.length > 3);
  expect(received).toEqual(['up', 'webhook:x', 'down: Query read timeout', 'up']);
});
