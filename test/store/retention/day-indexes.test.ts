import { beforeEach, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../server/base/time/durations.ts';
import { indexPastDays, readUnindexedFrom } from '../../../server/store/retention/day-indexes.ts';
import { createDays, partitionName } from '../../../server/store/retention/partitions.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { ofEach } from '../../helpers/shared.ts';

/** Far from the days of the template. */
const FIRST_MS = Date.parse('2020-01-01T00:00:00Z');

const fresh = ofEach(freshDatabase);
beforeEach(async () => {
  await createDays(fresh.database, [FIRST_MS, FIRST_MS + DAY_MS]);
});

const indexOf = (ms: number) => `${partitionName('events', ms)}_of_webhook`;

test('a day gets its index an hour after its end, once', async () => {
  const { database } = fresh;
  const endMs = FIRST_MS + DAY_MS;
  expect(await indexPastDays(database, endMs + HOUR_MS - 1)).toEqual([]);
  expect(await readUnindexedFrom(database)).toBe(FIRST_MS);
  expect(await indexPastDays(database, endMs + HOUR_MS)).toEqual([indexOf(FIRST_MS)]);
  expect(await readUnindexedFrom(database)).toBe(endMs);
  expect(await indexPastDays(database, endMs + HOUR_MS)).toEqual([]);
});

test('days that waited are indexed in one run, oldest first, until it is stopped', async () => {
  const { database } = fresh;
  let days = 0;
  expect(await indexPastDays(database, FIRST_MS + 3 * DAY_MS, () => days++ > 0)).toEqual([indexOf(FIRST_MS)]);
  expect(await indexPastDays(database, FIRST_MS + 3 * DAY_MS)).toEqual([indexOf(FIRST_MS + DAY_MS)]);
});
