/** The work of a request ends when its client disconnects. Claims: claim-wait.test.ts; streams: live/stream.test.ts. */
import { beforeAll, expect, test } from 'vitest';
import { startAgentApp, storeEvents } from '../../../helpers/agents.ts';
import { takeClock } from '../../../helpers/clock.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
let webhookId: string;

beforeAll(async () => {
  const webhook = await app.addWebhook();
  webhookId = webhook.id;
  // A search reads three slices.
  await storeEvents(app.database, webhookId, 8_000);
});

/** Statements so far: each waits for a connection of the pool. */
async function statements(): Promise<number> {
  const families = (await app.app.metrics()) as { name: string; values: { metricName?: string; value: number }[] }[];
  const { values } = families.find(({ name }) => name === 'weir_pool_wait_seconds')!;
  return values.find(({ metricName }) => metricName === 'weir_pool_wait_seconds_count')!.value;
}

test.each([
  ['a search', '/api/v1/events?q=nowhere', undefined],
  ['a count', '/api/v1/events/count?q=nowhere', undefined],
  ['an export', '/api/v1/events/export?q=nowhere', undefined],
  ['the preview of a replay', '/api/v1/events/replay', { preview: true, q: 'nowhere' }],
])('%s', async (_what, path, given) => {
  // No time limit ends the work.
  takeClock();
  const body = given && JSON.stringify({ ...given, webhook_id: webhookId });
  const ask = async (signal?: AbortSignal) => {
    const response = await fetch(`${app.url}${path}`, {
      method: body === undefined ? 'GET' : 'POST',
      headers: { authorization: `Bearer ${operator.token}` },
      ...(body === undefined ? {} : { body }),
      ...(signal && { signal }),
    });
    await response.text();
    return response.status;
  };
  const before = await statements();
  expect(await ask()).toBe(200);
  const whole = (await statements()) - before;
  expect(whole).toBeGreaterThan(8);

  const gone = new AbortController();
  let asked = 0;
  await app.database.transaction(async (query) => {
    // The first statement on events waits until the client has left.
    await query({ text: 'lock table events in access exclusive mode' });
    const asking = ask(gone.signal).catch(() => 'disconnected');
    const waits = `select from pg_locks where not granted and relation = 'events'::regclass`;
    await until(async () => (await query({ text: waits })).length > 0);
    gone.abort();
    expect(await asking).toBe('disconnected');
    await until(async () => (await app.metric('weir_open_requests')) === 0);
    asked = await statements();
  });
  // What goes on runs as many statements as one of these requests, and ends before both.
  for (let i = 0; i < 2; i++) expect(await ask()).toBe(200);
  expect((await statements()) - asked - 2 * whole).toBeLessThan(whole / 2);
});
