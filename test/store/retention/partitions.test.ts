import { beforeEach, describe, expect, test } from 'vitest';
import { DAY_MS, HOUR_MS } from '../../../server/base/time/durations.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import { deleteOldSteps } from '../../../server/store/retention/in-parts.ts';
import {
  createDays,
  createPartitions,
  missingPartitions,
  parents,
  partitionedTables,
  partitionName,
  readHorizon,
  tendDays,
} from '../../../server/store/retention/partitions.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { ofEach } from '../../helpers/shared.ts';

const fresh = ofEach(freshDatabase);

const today = () => Math.floor(Date.now() / DAY_MS) * DAY_MS;

async function partitions(): Promise<string[]> {
  const rows = await fresh.sql<{ name: string }>(
    `select inhrelid::regclass::text as name from pg_inherits where inhparent = any ($1::regclass[]) order by 1`,
    `{${Object.values(parents).join(',')}}`,
  );
  return rows.map(({ name }) => name);
}

test('both tables have partitions for yesterday, today and seven days ahead', async () => {
  // The database is a copy of a template that may be of the day before.
  await fresh.sql(`drop table ${(await partitions()).join(',')}`);
  const nowMs = Date.now();
  const todayMs = Math.floor(nowMs / DAY_MS) * DAY_MS;
  await createPartitions(fresh.database, nowMs);
  const names = partitionedTables.flatMap((table) =>
    Array.from({ length: 9 }, (_, i) => partitionName(table, todayMs + (i - 1) * DAY_MS)),
  );
  expect(await partitions()).toEqual(names.sort());
  expect(await readHorizon(fresh.database)).toEqual({ fromMs: todayMs - DAY_MS, toMs: todayMs + 8 * DAY_MS });
});

test('the next day creates the missing ones of both tables, and a second run creates none', async () => {
  await createPartitions(fresh.database, Date.now());
  const tomorrowMs = Date.now() + DAY_MS;
  const made = partitionedTables.map((table) => partitionName(table, today() + 8 * DAY_MS));
  expect(await createPartitions(fresh.database, tomorrowMs)).toEqual(made);
  expect(await createPartitions(fresh.database, tomorrowMs)).toEqual([]);
  expect((await readHorizon(fresh.database))!.toMs).toBe(today() + 9 * DAY_MS);
});

test('a missing partition is created, and a manually detached one is attached again with its rows', async () => {
  await createPartitions(fresh.database, Date.now());
  const [dropped, detached] = [partitionName('deliveries', today()), partitionName('events', today())];
  await fresh.sql(`insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
           values (gen_random_uuid(), gen_random_uuid(), now(), '127.0.0.1', '', '', 0)`);
  await fresh.sql(`drop table ${dropped}; alter table events detach partition ${detached}`);
  expect((await missingPartitions(fresh.database, Date.now())).map(({ name }) => name)).toEqual([detached, dropped]);
  expect(await createPartitions(fresh.database, Date.now())).toEqual([detached, dropped]);
  expect(await missingPartitions(fresh.database, Date.now())).toEqual([]);
  expect(await fresh.sql('select count(*)::int as count from events')).toEqual([{ count: 1 }]);
});

test('concurrent runs create each partition once', async () => {
  const laterMs = Date.now() + 30 * DAY_MS;
  const made = await Promise.all(Array.from({ length: 4 }, () => createPartitions(fresh.database, laterMs)));
  expect(made.flat()).toHaveLength(18);
  expect(new Set(made.flat()).size).toBe(18);
});

test('the horizon is the minimum over the tables', async () => {
  await createPartitions(fresh.database, Date.now());
  const before = (await readHorizon(fresh.database))!;
  await fresh.sql(`drop table ${partitionName('deliveries', before.toMs - DAY_MS)}`);
  expect(await readHorizon(fresh.database)).toEqual({ ...before, toMs: before.toMs - DAY_MS });
  await fresh.sql(`drop table ${partitionName('events', before.fromMs)}`);
  expect(await readHorizon(fresh.database)).toEqual({ fromMs: before.fromMs + DAY_MS, toMs: before.toMs - DAY_MS });
});

test('without partitions there is no horizon', async () => {
  for (const name of await partitions()) if (name.startsWith('deliveries')) await fresh.sql(`drop table ${name}`);
  expect(await readHorizon(fresh.database)).toBeNull();
});

test.each(partitionedTables)(
  'the first and the last millisecond of a day lie on its partition of %s',
  async (table) => {
    await createPartitions(fresh.database, Date.now());
    const columns = {
      events: `source_ip, headers, body, bytes`,
      deliveries: 'agent_id, event_id, bytes, state, finished_at',
    }[table];
    const values = {
      events: `'127.0.0.1', '', '', 0`,
      deliveries: `gen_random_uuid(), gen_random_uuid(), 0, 'done', now()`,
    }[table];
    for (const ms of [today(), today() + DAY_MS - 1]) {
      const [row] = await fresh.sql<{ name: string }>(
        `insert into ${table} (id, webhook_id, received_at, ${columns}) values (gen_random_uuid(), gen_random_uuid(), $1, ${values})
             returning tableoid::regclass::text as name`,
        new Date(ms).toISOString(),
      );
      expect(row!.name).toBe(partitionName(table, today()));
    }
  },
);

test('a reading session does not delay a new partition', async () => {
  await createPartitions(fresh.database, Date.now());
  await fresh.database.transaction(async (query) => {
    await query({ text: 'set transaction isolation level repeatable read' });
    await query({ text: 'select count(*) from events' });
    // This transaction ends only after the partitions exist: a creation that waited for its lock would never end.
    expect(await createPartitions(fresh.database, Date.now() + DAY_MS)).toHaveLength(partitionedTables.length);
  });
});

describe('a day that has ended', () => {
  /** Far from the days of the template. */
  const FIRST_MS = Date.parse('2020-01-01T00:00:00Z');
  const END_MS = FIRST_MS + DAY_MS;
  const [FIRST_INDEX, NEXT_INDEX] = ['events_20200101_of_webhook', 'events_20200102_of_webhook'];
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
});

describe('old rows of one step', () => {
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
    fresh.sql(
      `insert into history (webhook_id, step, at, accepted, bytes, duplicates, rejected, limited, disabled, length_required, too_large, unavailable)
           select gen_random_uuid(), $2, date_trunc('hour', now()) - make_interval(hours => $3), 1, 0, 0, 0, 0, 0, 0, 0, 0 from generate_series(1, $1)`,
      count,
      step,
      hours,
    );
  const left = async () => (await fresh.sql('select from history')).length;

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
});
