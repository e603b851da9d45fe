/** The depth of the deliveries, and where counting ends. */
import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { COUNTED_MAX, countDeliveries } from '../../server/db/queries/count-deliveries.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';

let fresh: FreshDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
});
afterAll(() => fresh.drop());
beforeEach(() => fresh.database.query({ text: 'truncate deliveries' }));

async function insert(state: string, count: number): Promise<void> {
  await fresh.database.query({
    text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
           select gen_random_uuid(), $1, $1, gen_random_uuid(), now(), 1, $2, case when $2 in ('done', 'dead') then now() end
           from generate_series(1, $3::int)`,
    values: [randomUUID(), state, count],
  });
}

test('is by state, of what is not done', async () => {
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
])('of %s ones that are %d is %j', async (state, count, expected) => {
  await insert(state, count);
  expect(await countDeliveries(fresh.database)).toMatchObject(expected);
});

test('reads no more of very many than it counts', async () => {
  await insert('done', 50_000);
  await insert('dead', 3);
  await insert('pending', 30_000);
  await fresh.database.query({ text: 'analyze deliveries' });
  const plans = await fresh.database.query<{ 'QUERY PLAN': string }>({
    text: `explain (analyze, timing off, costs off, summary off)
           select from deliveries where state = 'dead' limit ${COUNTED_MAX + 1}`,
  });
  const plan = plans.map((row) => row['QUERY PLAN']).join('\n');
  expect(plan).toMatch(/deliveries_\d+_.*rows=3\b/);
  expect(plan).not.toMatch(/Rows Removed/);
});
