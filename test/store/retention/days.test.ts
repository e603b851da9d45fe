import { beforeEach, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../server/base/time/durations.ts';
import { createDays, tendDays } from '../../../server/store/retention/partitions.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { ofEach } from '../../helpers/shared.ts';

/** Far from the days of the template. */
const FIRST_MS = Date.parse('2020-01-01T00:00:00Z');
const END_MS = FIRST_MS + DAY_MS;
const [FIRST_INDEX, NEXT_INDEX] = ['events_20200101_of_webhook', 'events_20200102_of_webhook'];

const fresh = ofEach(freshDatabase);
beforeEach(async () => {
  await createDays(fresh.database, [FIRST_MS, END_MS]);
});

test('a day is indexed and vacuumed for its inserts only an hour after its end, and then its rows are frozen', async () => {
  const { database } = fresh;
  const options = async () =>
    database.query({
      text: `select c.relname as name, c.reloptions as table, t.reloptions as toast
             from pg_class c join pg_class t on t.oid = c.reltoastrelid
             where c.relname in ('events_20200101', 'deliveries_20200101') order by 1`,
    });
  const all = (reloptions: string[]) =>
    ['deliveries_20200101', 'events_20200101'].map((name) => ({ name, table: reloptions, toast: reloptions }));
  const during = all(['autovacuum_vacuum_insert_threshold=-1', 'autovacuum_freeze_min_age=0']);
  expect(await tendDays(database, FIRST_MS)).toEqual([]);
  expect(await options()).toEqual(during);
  expect(await tendDays(database, END_MS + HOUR_MS - 1)).toEqual([]);
  expect(await options()).toEqual(during);
  expect(await tendDays(database, END_MS + HOUR_MS)).toEqual([FIRST_INDEX]);
  expect(await options()).toEqual(all(['autovacuum_freeze_min_age=0']));
  expect(await tendDays(database, END_MS + HOUR_MS)).toEqual([]);
});

test('days that waited are indexed in one run, oldest first, until it is stopped', async () => {
  const { database } = fresh;
  await tendDays(database, FIRST_MS);
  const nowMs = END_MS + 2 * DAY_MS;
  // The first is asked for the partition of deliveries.
  let asked = 0;
  expect(await tendDays(database, nowMs, () => asked++ > 1)).toEqual([FIRST_INDEX]);
  expect(await tendDays(database, nowMs)).toEqual([NEXT_INDEX]);
});
