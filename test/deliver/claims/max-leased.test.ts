/** `max_leased`: deliveries under lease at a time, over all clients and processes of an agent. */
import { describe, expect, test } from 'vitest';
import { withRoom } from '../../../server/store/queries/claims/room.ts';
import {
  addAgent,
  agentsOf,
  letPass,
  startAgentApp,
  startSecondApp,
  storeEvents,
  type TestAgent,
} from '../../helpers/agents.ts';
import { metricOf } from '../../helpers/app.ts';
import { holdTimers } from '../../helpers/clock.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

/** Interval of the queries of a waiting claim. */
const CHECK_EVERY_MS = 1_000;

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));

const limit = async (agent: TestAgent, max: number | null) =>
  made(await agentsOf(app).update(agent.id, { max_leased: max }));

/** An agent with this limit and pending deliveries of two webhooks. */
async function limitedAgent(max: number | null, deliveries: number): Promise<TestAgent> {
  const webhooks = [await app.addWebhook(), await app.addWebhook()];
  const agent = await addAgent(app, webhooks);
  await limit(agent, max);
  for (const { id } of webhooks) await storeEvents(app.database, id, deliveries / 2);
  return agent;
}

const receiptsOf = (deliveries: { receipt: string }[]) => deliveries.map(({ receipt }) => receipt);

const waiting = async () =>
  (await metricOf(app.app, 'weir_claims_waiting')) + (await metricOf(second.app, 'weir_claims_waiting'));

test('a claim behind another one leases nothing after its client has disconnected', async () => {
  const agent = await limitedAgent(10, 2);
  const leaving = new AbortController();
  const first = await app.database.transaction(async (query) => {
    await query({ text: 'lock table deliveries in exclusive mode' });
    const claim = agent.claim({ max: 1 });
    await until(async () => {
      const text = `select from pg_locks where not granted and relation = 'deliveries'::regclass`;
      return (await query({ text })).length > 0;
    });
    const gone = agent.post('claim', { max: 1, lease_seconds: 60 }, leaving.signal).catch(() => null);
    await until(async () => (await app.metric('weir_open_requests')) === 2);
    leaving.abort();
    expect(await gone).toBeNull();
    await until(async () => (await app.metric('weir_open_requests')) === 1);
    return { claim };
  });
  expect(await first.claim).toHaveLength(1);
  // Runs after the claim of the disconnected client.
  expect(await agent.claim({ max: 1 })).toHaveLength(1);
  const [row] = await app.sql<{ leases: number }>(
    'select sum(leases)::int as leases from deliveries where agent_id = $1',
    agent.id,
  );
  expect(row!.leases).toBe(2);
});

test('concurrent claims at two processes never exceed max_leased, and get everything', async () => {
  const agent = await limitedAgent(10, 400);
  let held = 0;
  let heldMax = 0;
  const got: string[] = [];
  const client = async (place: TestAgent, max: number) => {
    while (got.length < 400) {
      const deliveries = await place.claim({ max });
      held += deliveries.length;
      heldMax = Math.max(heldMax, held);
      got.push(...deliveries.map(({ id }) => id));
      held -= deliveries.length;
      if (deliveries.length > 0) await place.ack(receiptsOf(deliveries));
    }
  };
  const places = [agent, agent.at(second)];
  await Promise.all([3, 7, 10, 50, 4, 9].map((max, i) => client(places[i % 2]!, max)));
  expect(new Set(got).size).toBe(400);
  expect(heldMax).toBeLessThanOrEqual(10);
});

test('a claim counts what another process leases while it waits for the lock', async () => {
  const agent = await limitedAgent(3, 10);
  let claim = Promise.resolve<unknown[]>([]);
  await withRoom(app.database, agent.id, async (query, room) => {
    expect(room).toBe(3);
    claim = agent.at(second).claim();
    await until(async () => (await app.sql('select from pg_locks where not granted')).length > 0);
    await query({
      text: `update deliveries set state = 'leased', available_at = now() + interval '1 hour'
             where (received_at, id) in (select received_at, id from deliveries where agent_id = $1 limit 2)`,
      values: [agent.id],
    });
  });
  expect(await claim).toHaveLength(1);
});

test('with max_leased below the current number, nothing is claimed until enough are settled; null is not a limit', async () => {
  const agent = await limitedAgent(5, 20);
  const receipts = receiptsOf(await agent.claim());
  expect(receipts).toHaveLength(5);
  await limit(agent, 2);
  for (const receipt of receipts.slice(0, 3)) {
    expect(await agent.claim()).toEqual([]);
    await agent.ack([receipt]);
  }
  expect(await agent.claim()).toEqual([]);
  await agent.nack([receipts[3]!], { delay_seconds: 3600 });
  expect(await agent.claim()).toHaveLength(1);
  await limit(agent, null);
  expect(await agent.claim()).toHaveLength(14);
});

describe('a claim at the limit waits', () => {
  test.each([
    ['an acknowledgement at its process', (agent: TestAgent) => agent],
    ['an acknowledgement at another process', (agent: TestAgent) => agent.at(second)],
    // At the end of its wait a claim looks once more: the time limit of the test is below that.
  ])('and is woken by %s', { timeout: 25_000 }, async (_what, at) => {
    holdTimers(CHECK_EVERY_MS);
    const agent = await limitedAgent(1, 2);
    const { receipt } = await agent.claimOne();
    const claim = agent.claim({ wait_seconds: 30 });
    await until(async () => (await waiting()) === 1);
    await at(agent).ack([receipt]);
    expect(await claim).toHaveLength(1);
  });

  test('and is woken by the end of a lease and by a higher limit', async () => {
    const agent = await limitedAgent(1, 4);
    await agent.claimOne();
    const first = agent.claim({ wait_seconds: 30 });
    await until(async () => (await waiting()) === 1);
    // The leases end now and not earlier, because the claim scans from its watermark on.
    await app.sql(`update deliveries set available_at = now() where state = 'leased' and agent_id = $1`, agent.id);
    expect(await first).toHaveLength(1);
    const next = agent.claim({ wait_seconds: 30 });
    await until(async () => (await waiting()) === 1);
    await limit(agent, 2);
    expect(await next).toHaveLength(1);
  });
});

test('an expired lease is not extended: another may have its place. Without a limit it is', async () => {
  for (const [max, done] of [
    [5, 0],
    [null, 1],
  ] as const) {
    const agent = await limitedAgent(max, 2);
    const { receipt } = await agent.claimOne();
    expect((await agent.extend([receipt], 3600)).done).toEqual([receipt]);
    await letPass(app.database, 3601);
    expect((await agent.extend([receipt], 60)).done).toHaveLength(done);
  }
});
