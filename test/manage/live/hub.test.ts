import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import type { Live } from '../../../server/manage/live/counters.ts';
import { LiveHub } from '../../../server/manage/live/hub.ts';
import { noDeaths } from '../../../server/model/machines.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

test('a collection that fails does not end the seconds', async () => {
  const seconds: Live[] = [];
  let collections = 0;
  const hub = new LiveHub({
    collect: async () => {
      if (++collections === 1) throw new Error('the processes cannot be asked');
    },
    send: (live) => seconds.push(live),
    databaseAnswers: () => true,
    outages: { second: () => null },
    disks: () => [],
    deaths: () => noDeaths,
    countDeliveries: () => Promise.reject(new Error('not asked: no stream is open')),
  });
  hub.start();
  await vi.advanceTimersByTimeAsync(3_000);
  hub.stop();
  expect(collections).toBe(3);
  expect(seconds).toHaveLength(3);
});
