/** Waiting claims: what wakes and ends them, and what happens when the client disconnects. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { addAgent, letPass, send, startAgentApp, startSecondApp, storeEvents } from '../../helpers/agents.ts';
import { metricOf, type TestApp } from '../../helpers/app.ts';
import { holdTimers } from '../../helpers/clock.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

/** Interval of the queries of a waiting claim. */
const CHECK_EVERY_MS = 1_000;

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));

const waiting = (where: Pick<TestApp['app'], 'metrics'>) => metricOf(where, 'weir_claims_waiting');
afterEach(async () => {
  await until(async () => (await waiting(app.app)) + (await waiting(second.app)) === 0);
  await app.sql('delete from deliveries');
});

test.each([
  ['the process that commits', () => agent, () => app.app],
  ['another process on the same database', () => agent.at(second), () => second.app],
])('a waiting claim wakes on a commit before its next query: %s', async (_where, claimer, at) => {
  holdTimers(CHECK_EVERY_MS);
  for (let round = 0; round < 9; round++) {
    const before = await waiting(at());
    const claim = claimer().claim({ wait_seconds: 30 });
    await until(async () => (await waiting(at())) > before);
    const id = await send(webhook);
    expect((await claim).map(({ event }) => event.id)).toEqual([id]);
  }
});

test('a commit between its query and its wait is not missed', async () => {
  holdTimers(CHECK_EVERY_MS);
  const sent: string[] = [];
  const got: string[] = [];
  const consumer = (async () => {
    while (got.length < 30) got.push(...(await agent.claim({ wait_seconds: 30 })).map(({ event }) => event.id));
  })();
  for (let i = 0; i < 30; i++) {
    // At different moments of a claim: right after the last response, a little later, and so on.
    await delay((i % 10) / 2);
    sent.push(await send(webhook));
    // A missed one comes after wait_seconds.
    await until(() => got.length > i, { timeoutMs: 25_000 });
  }
  await consumer;
  expect(got).toEqual(sent);
});

// The time limit of the test is below wait_seconds: the claim is woken by the query of every second.
test('a lost notification costs at most a second', { timeout: 20_000 }, async () => {
  const claim = agent.claim({ wait_seconds: 30 });
  await until(async () => (await waiting(app.app)) === 1);
  // Stored without a notification.
  const ids = await storeEvents(app.database, webhook.id, 1);
  expect((await claim).map(({ event }) => event.id)).toEqual(ids);
});

test('the end of a lease and of a delay wake a waiting claim', async () => {
  await send(webhook);
  const { id, receipt } = await agent.claimOne();
  const first = agent.claim({ wait_seconds: 30 });
  await until(async () => (await waiting(app.app)) === 1);
  await letPass(app.database, 3600);
  expect((await first).map((delivery) => [delivery.id, delivery.attempt])).toEqual([[id, 2]]);
  expect(await agent.ack([receipt])).toEqual({ done: [], gone: [receipt] });
});

test('a waiting claim without deliveries ends at wait_seconds with an empty list, and is not logged as slow', async () => {
  const lines = app.logLines.length;
  const startedMs = performance.now();
  expect(await agent.claim({ wait_seconds: 1 })).toEqual([]);
  expect(performance.now() - startedMs).toBeGreaterThan(950);
  expect(app.logLines.slice(lines).filter((line) => line.includes('request_slow'))).toEqual([]);
});

test('a claim without wait_seconds returns before one that waits', async () => {
  const order: string[] = [];
  const waits = agent.claim({ wait_seconds: 30 }).then(() => order.push('waits'));
  await until(async () => (await waiting(app.app)) === 1);
  expect(await agent.claim()).toEqual([]);
  order.push('does not wait');
  await send(webhook);
  await waits;
  expect(order).toEqual(['does not wait', 'waits']);
});

test('a delivery excluded by webhook_ids causes no response and no busy process', { timeout: 20_000 }, async () => {
  const other = await app.addWebhook();
  const both = await addAgent(app, [webhook, other]);
  await send(webhook);
  const claim = both.claim({ wait_seconds: 30, webhook_ids: [other.id] });
  await delay(500);
  const id = await send(other);
  expect((await claim).map(({ event }) => event.id)).toEqual([id]);
});

test('a waiting claim of a disconnected client claims nothing', async () => {
  const leaving = new AbortController();
  const claim = agent.post('claim', { wait_seconds: 30 }, leaving.signal).catch(() => null);
  await until(async () => (await waiting(app.app)) === 1);
  leaving.abort();
  await claim;
  await until(async () => (await waiting(app.app)) === 0);
  const id = await send(webhook);
  const delivery = await agent.claimOne();
  expect([delivery.event.id, delivery.attempt]).toEqual([id, 1]);
});

test('a claim whose client disconnects before the response returns its leases without counting them', async () => {
  await storeEvents(app.database, webhook.id, 500);
  const [before] = await app.sql<{ time: string }>('select now()::text as time');
  const leaving = new AbortController();
  await app.database.transaction(async (query) => {
    // The claim is blocked in the database until its client has disconnected.
    await query({ text: 'lock table deliveries in exclusive mode' });
    const claim = agent.post('claim', { max: 1000, lease_seconds: 3600 }, leaving.signal).catch(() => null);
    await until(async () => {
      const text = `select from pg_locks where not granted and relation = 'deliveries'::regclass`;
      return (await query({ text })).length > 0;
    });
    leaving.abort();
    expect(await claim).toBeNull();
    await until(async () => (await app.metric('weir_open_requests')) === 0);
  });
  const text = `select from deliveries where agent_id = $1 and state = 'pending' and attempts = 0 and available_at > $2`;
  await until(async () => (await app.sql(text, agent.id, before!.time)).length === 500);
  expect(await agent.claim()).toHaveLength(500);
});

test('many waiting claims of one agent share new deliveries, each once', async () => {
  const claims = Array.from({ length: 20 }, () => agent.claim({ max: 1, wait_seconds: 30 }));
  await until(async () => (await waiting(app.app)) === 20);
  const ids = await storeEvents(app.database, webhook.id, 20);
  await send(webhook);
  const got = (await Promise.all(claims)).flat().map(({ event }) => event.id);
  expect(new Set(got).size).toBe(20);
  expect(got.filter((id) => ids.includes(id)).length).toBeGreaterThan(18);
});

test('a drain ends waiting claims at once', { timeout: 20_000 }, async () => {
  const third = await startSecondApp(app);
  const claims = Array.from({ length: 5 }, () => agent.at(third).post('claim', { wait_seconds: 30 }));
  await until(async () => (await waiting(third.app)) === 5);
  const stopping = third.stop();
  for (const answer of await Promise.all(claims))
    expect([answer.status, answer.body, answer.headers.get('connection')]).toEqual([200, { deliveries: [] }, 'close']);
  await stopping;
});

test('a database outage during waiting claims causes no wrong result, and claims continue after it', async () => {
  const claims = Array.from({ length: 3 }, () => agent.post('claim', { max: 1, wait_seconds: 30 }));
  await until(async () => (await waiting(app.app)) === 3);
  await app.cutOff();
  const second = await agent.post('claim', {});
  await app.restore();
  expect([second.status, second.headers.get('retry-after')]).toEqual([503, '1']);
  await until(async () => (await app.metric('weir_database_up')) === 1);
  await until(() => app.sql('select').catch(() => null));
  for (let i = 0; i < 3; i++) await until(() => send(webhook).catch(() => null));
  for (const { status, body } of await Promise.all(claims)) expect([status, body.deliveries.length]).toEqual([200, 1]);
});
