/** Numbers of deliveries, and the limit of counting. */
import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { HOUR_MS } from '../../server/base/time/durations.ts';
import { searchedPageOf } from '../../server/manage/api/paging.ts';
import { COUNTED_MAX } from '../../server/model/events.ts';
import { readDeadGroups } from '../../server/store/queries/alerts/condition-signs.ts';
import {
  countDeliveries,
  countOrEstimateDeliveries,
  readDeliveryDepths,
  sampleDeliveries,
} from '../../server/store/queries/deliveries/counts.ts';
import { listDeliveries } from '../../server/store/queries/deliveries/lists.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { shared } from '../helpers/shared.ts';

const fresh = shared(freshDatabase);
/** Fewer waiting deliveries than outside of tests: their insertion takes the time. */
const limits = { waiting: COUNTED_MAX, dead: COUNTED_MAX };
beforeEach(() => fresh.sql('truncate deliveries'));

async function insert(state: string, count: number, id = randomUUID()): Promise<void> {
  await fresh.sql(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
           select gen_random_uuid(), $1, $1, gen_random_uuid(), now(), 1, $2, case when $2 in ('done', 'dead') then now() end
           from generate_series(1, $3::int)`,
    id,
    state,
    count,
  );
}

test('the count of deliveries is by state, without done deliveries', async () => {
  expect(await countDeliveries(fresh.database)).toEqual({ pending: 0, leased: 0, dead: 0, exact: true });
  await insert('pending', 5);
  await insert('leased', 3);
  await insert('dead', 2);
  await insert('done', 7);
  expect(await countDeliveries(fresh.database)).toEqual({ pending: 5, leased: 3, dead: 2, exact: true });
});

test.each([
  ['pending', COUNTED_MAX, { pending: COUNTED_MAX, exact: true }],
  ['pending', COUNTED_MAX + 1, { pending: COUNTED_MAX + 1, exact: false }],
  ['dead', COUNTED_MAX, { dead: COUNTED_MAX, exact: true }],
  ['dead', COUNTED_MAX + 1, { dead: COUNTED_MAX, exact: false }],
])('of %s deliveries that are %d is %j', async (state, count, expected) => {
  await insert(state, count);
  expect(await countDeliveries(fresh.database, {}, limits)).toMatchObject(expected);
});

test('the count of deliveries is estimated beyond the limit, in total, for an agent, and for each agent', async () => {
  const [flooded, quiet] = [randomUUID(), randomUUID()];
  await insert('done', 20_000);
  await insert('pending', 25_000, flooded);
  await insert('pending', 20, quiet);
  await insert('dead', 3, quiet);
  const counted = { pending: 25_020, leased: 0, dead: 3 };
  expect(await countOrEstimateDeliveries(fresh.database)).toEqual({ ...counted, exact: true });
  expect(await countOrEstimateDeliveries(fresh.database, {}, limits)).toEqual({ ...counted, exact: false });
  const of = (agentId: string) => countOrEstimateDeliveries(fresh.database, { agentId }, limits);
  expect(await of(flooded)).toEqual({ pending: 25_000, leased: 0, dead: 0, exact: false });
  expect(await of(quiet)).toEqual({ pending: 20, leased: 0, dead: 3, exact: true });
  const { agents, exact } = await readDeliveryDepths(fresh.database, limits);
  expect(exact).toBe(false);
  expect(agents.find(({ agentId }) => agentId === flooded)).toMatchObject({ pending: 25_000, leased: 0, dead: 0 });
  expect(agents.find(({ agentId }) => agentId === quiet)).toMatchObject({ pending: 20, leased: 0, dead: 3 });
});

test.each([
  ['pending', 4, true],
  ['pending', 5, false],
  ['dead', 2, true],
  ['dead', 3, false],
])('the counts for each agent, of %s deliveries that are %d, are exact: %j', async (state, count, exact) => {
  await insert(state, count);
  expect((await readDeliveryDepths(fresh.database, { waiting: 4, dead: 2 })).exact).toBe(exact);
});

test('beyond the limit, the oldest of more than 200 agents has the age of its oldest delivery', async () => {
  // Last by id and by place, so that counting ends before its delivery.
  const oldest = 'ffffffff-ffff-4fff-8fff-ffffffffffff';
  await fresh.sql(
    `
      with agent as (
        insert into agents (id, name, lookup_id, secret_hash, created_at)
        select case when n = 0 then $1::uuid else gen_random_uuid() end, 'agent ' || n, lpad(n::text, 12, '0'), sha256(''),
          now() - case when n = 0 then interval '1 day' else '0' end
        from generate_series(0, 200) n returning id
      ), webhook as (
        insert into webhooks (id, name) values ($1, 'shop') returning id
      ), subscription as (
        insert into subscriptions (webhook_id, agent_id) select webhook.id, agent.id from webhook, agent
      )
      insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
      select gen_random_uuid(), $1, id, gen_random_uuid(), now(), 1, case when id = $1 then now() - interval '1 hour' else now() end
      from (
        select id, n from agent, generate_series(1, 51) n where id <> $1 union all select $1, 52
      ) d order by n`,
    oldest,
  );
  const { agents, exact } = await readDeliveryDepths(fresh.database, limits);
  expect([agents.length, exact]).toEqual([201, false]);
  const { waitingSinceMs } = agents.find(({ agentId }) => agentId === oldest)!;
  expect(waitingSinceMs).toBeLessThan(Date.now() - 3_000_000);
});

test('a sample reads some blocks, and gives the same result each time', async () => {
  await insert('pending', 60_000);
  // Without the limit on its time, which a busy machine may exceed.
  const sample = () => sampleDeliveries(fresh.database.query, { waiting: true }, { blocksMax: 200 });
  const [row] = await sample();
  expect(row!.deliveries).toBeGreaterThan(45_000);
  expect(row!.deliveries).toBeLessThan(75_000);
  expect(row!.deliveries).not.toBe(60_000);
  expect((await sample())[0]).toEqual(row);
});

test.each([
  ['in one scan', 4],
  ['agent by agent, when all agents have more', 3],
])('dead letters of many agents are grouped by reason %s', async (_how, max) => {
  const agents = Array.from({ length: 201 }, randomUUID);
  await insert('dead', 3, agents[0]);
  await insert('dead', 1);
  await fresh.sql(
    `update deliveries set reason = 'no stock' where id = (select min(id::text)::uuid from deliveries where agent_id = $1)`,
    agents[0]!,
  );
  const groups = await readDeadGroups(fresh.database, agents, max);
  expect(groups.map(({ agent_id, reason, count }) => [agent_id, reason, count])).toEqual([
    [agents[0], null, 2],
    [agents[0], 'no stock', 1],
  ]);
});

test('the first page of an agent has its newest deliveries, whenever each can be claimed', async () => {
  const agentId = randomUUID();
  // Half can be claimed since their receipt, the others later: after a lease, a replay, or never while they are held.
  await fresh.sql(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at, state)
     select delivery_id(event), $1, $1, event, at, 1,
       case n % 6 when 0 then at + interval '1 hour' when 1 then now() when 2 then 'infinity' else at end,
       case when n % 12 = 0 then 'leased' when n % 5 = 0 then 'done' else 'pending' end
     from generate_series(1, 300) n,
       lateral (select date_trunc('milliseconds', now() - interval '2 hours' * random() + n * interval '0 s') as at) t,
       lateral (select (lpad(to_hex((extract(epoch from at) * 1000)::bigint), 12, '0') || '70008' || lpad(n::text, 15, '0'))::uuid as event) e`,
    agentId,
  );
  const newest = await fresh.sql<{ id: string }>('select id from deliveries order by received_at desc, id desc');
  const ids = newest.map(({ id }) => id);
  const list = async (...[filter, before, limit, options]: Listing) => {
    const { rows, stoppedAt } = await listDeliveries(fresh.database, filter, before, limit, options);
    return { found: rows.map(({ id }) => id), stoppedAt };
  };
  const webhookId = agentId;
  for (const limit of [1, 20, 301])
    for (const [filter, options] of [
      [{ agentId }, {}],
      // As after many replays.
      [{ agentId }, { recentMax: 0 }],
      [{ webhookId }, {}],
      [{ webhookId, agentId }, {}],
    ] as const)
      expect(await list(filter, null, limit, options)).toEqual({ found: ids.slice(0, limit), stoppedAt: null });
  // An hour at a time.
  const first = await list({ webhookId }, null, 301, { msMax: 0 });
  expect(first.found).toEqual(ids.slice(0, first.found.length));
  expect(first.found.length).toBeGreaterThan(0);
  expect(first.found.length).toBeLessThan(300);
  const ofAgent = await list({ agentId }, null, 301, { recentMax: 0, msMax: 0 });
  expect(ofAgent.stoppedAt).toEqual(expect.any(String));
  const rest = await list({ webhookId }, first.stoppedAt, 301);
  expect(rest).toEqual({ found: ids.slice(first.found.length), stoppedAt: null });
});

test('a list that is read span by span has each delivery once, whatever the page is and wherever the time ends', async () => {
  const id = randomUUID();
  const [newestMs, hours] = [Date.now() - 1_000, [0, 1, 2, 9, 10, 73, 74, 600]];
  const at = (hour: number) => new Date(newestMs - hour * HOUR_MS).toISOString();
  // Three of each millisecond, where spans end that begin at another one.
  await fresh.sql(
    `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state)
     select delivery_id(event), $1, $1, event, at, 1, case n when 1 then 'leased' else 'pending' end
     from unnest($2::timestamptz[]) at, generate_series(1, 3) n,
       lateral (select (lpad(to_hex(round(extract(epoch from at) * 1000)::bigint), 12, '0') || '70008' || lpad(n::text, 15, '0'))::uuid as event) e`,
    id,
    `{${hours.map(at)}}`,
  );
  for (const [filter, where] of [
    [{ webhookId: id }, 'true'],
    [{ agentId: id }, 'true'],
    [{ webhookId: id, state: 'pending', held: false }, `state = 'pending'`],
    [{ webhookId: id, from: at(73), to: at(1) }, `received_at >= '${at(73)}' and received_at < '${at(1)}'`],
    [{ webhookId: id, to: at(-1) }, 'true'],
  ] as const) {
    const rows = await fresh.sql<{ id: string }>(
      `select id from deliveries where ${where} order by received_at desc, id desc`,
    );
    for (const limit of [1, 2, 4, 50]) {
      const seen: string[] = [];
      for (let before: string | null = null, pages = 0; pages === 0 || before !== null; pages++) {
        expect(pages).toBeLessThan(200);
        const options = { msMax: pages % 5 === 4 ? 10_000 : 0, recentMax: 0 };
        const listed = await listDeliveries(fresh.database, filter, before, limit + 1, options);
        const { items, next_cursor } = searchedPageOf(listed, limit);
        seen.push(...items.map((one) => one.id));
        before = next_cursor;
      }
      expect([limit, ...seen]).toEqual([limit, ...rows.map((row) => row.id)]);
    }
  }
});

type Listing = [filter: object, before: string | null, limit: number, options?: object];
