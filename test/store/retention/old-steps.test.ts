import { beforeEach, expect, test } from 'vitest';
import type { Database } from '../../../server/store/connect/pool.ts';
import { deleteOldSteps } from '../../../server/store/retention/in-parts.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { ofEach } from '../../helpers/shared.ts';

const fresh = ofEach(freshDatabase);
/** Rows that each statement deleted. */
let parts: number[];
beforeEach(async () => {
  parts = [];
});

const remove = (stopping?: () => boolean) => {
  const query: Database['query'] = async (statement) => {
    const rows = await fresh.database.query(statement);
    parts.push((rows[0] as { rows: number }).rows);
    return rows;
  };
  return deleteOldSteps({ query }, 'history', { 60: 48 }, stopping);
};
const insert = (count: number, hours: number, step = 60) =>
  fresh.database.query({
    text: `insert into history (webhook_id, step, at, accepted, bytes, duplicates, rejected, limited, disabled, length_required, too_large, unavailable)
           select gen_random_uuid(), $2, date_trunc('hour', now()) - make_interval(hours => $3), 1, 0, 0, 0, 0, 0, 0, 0, 0 from generate_series(1, $1)`,
    values: [count, step, hours],
  });
const left = async () => (await fresh.database.query({ text: 'select from history' })).length;

test.each([
  [0, [0]],
  [9_999, [9_999]],
  [10_000, [10_000, 0]],
  [10_001, [10_000, 1]],
])('%d old rows of one time are deleted in parts of 10,000, others are kept', async (count, expected) => {
  await insert(count, 49);
  await insert(3, 46);
  await insert(2, 49, 900);
  await remove();
  expect(parts).toEqual(expected);
  expect(await left()).toBe(5);
});

test('old rows of several times are deleted', async () => {
  for (const hours of [1_000, 60, 50]) await insert(6_000, hours);
  await remove();
  expect(parts).toEqual([10_000, 8_000]);
  expect(await left()).toBe(0);
});

test('a stopped deletion is completed by the next one', async () => {
  await insert(20_001, 49);
  await remove(() => true);
  expect(await left()).toBe(10_001);
  await remove();
  expect(await left()).toBe(0);
});
