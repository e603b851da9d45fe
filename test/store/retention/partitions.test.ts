import { expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import {
  createPartitions,
  missingPartitions,
  parents,
  partitionedTables,
  partitionName,
  readHorizon,
} from '../../../server/store/retention/partitions.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { ofEach } from '../../helpers/shared.ts';

const fresh = ofEach(freshDatabase);

const today = () => Math.floor(Date.now() / DAY_MS) * DAY_MS;

async function partitions(): Promise<string[]> {
  const rows = await fresh.database.query<{ name: string }>({
    text: `select inhrelid::regclass::text as name from pg_inherits where inhparent = any ($1::regclass[]) order by 1`,
    values: [`{${Object.values(parents).join(',')}}`],
  });
  return rows.map(({ name }) => name);
}

test('both tables have partitions for yesterday, today and seven days ahead', async () => {
  // The database is a copy of a template that may be of the day before.
  await fresh.database.query({ text: `drop table ${(await partitions()).join(',')}` });
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
  await fresh.database.query({
    text: `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
           values (gen_random_uuid(), gen_random_uuid(), now(), '127.0.0.1', '', '', 0)`,
  });
  await fresh.database.query({ text: `drop table ${dropped}; alter table events detach partition ${detached}` });
  expect((await missingPartitions(fresh.database, Date.now())).map(({ name }) => name)).toEqual([detached, dropped]);
  expect(await createPartitions(fresh.database, Date.now())).toEqual([detached, dropped]);
  expect(await missingPartitions(fresh.database, Date.now())).toEqual([]);
  expect(await fresh.database.query({ text: 'select count(*)::int as count from events' })).toEqual([{ count: 1 }]);
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
  await fresh.database.query({ text: `drop table ${partitionName('deliveries', before.toMs - DAY_MS)}` });
  expect(await readHorizon(fresh.database)).toEqual({ ...before, toMs: before.toMs - DAY_MS });
  await fresh.database.query({ text: `drop table ${partitionName('events', before.fromMs)}` });
  expect(await readHorizon(fresh.database)).toEqual({ fromMs: before.fromMs + DAY_MS, toMs: before.toMs - DAY_MS });
});

test('without partitions there is no horizon', async () => {
  for (const name of await partitions())
    if (name.startsWith('deliveries')) await fresh.database.query({ text: `drop table ${name}` });
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
      const [row] = await fresh.database.query<{ name: string }>({
        text: `insert into ${table} (id, webhook_id, received_at, ${columns}) values (gen_random_uuid(), gen_random_uuid(), $1, ${values})
             returning tableoid::regclass::text as name`,
        values: [new Date(ms).toISOString()],
      });
      expect(row!.name).toBe(partitionName(table, today()));
    }
  },
);

test('a reading session does not delay a new partition', async () => {
  await createPartitions(fresh.database, Date.now());
  await fresh.database.transaction(async (query) => {
    await query({ text: 'set transaction isolation level repeatable read' });
    await query({ text: 'select count(*) from events' });
    // The transaction ends after the partitions exist: they would wait for its lock without end.
    expect(await createPartitions(fresh.database, Date.now() + DAY_MS)).toHaveLength(partitionedTables.length);
  });
});
