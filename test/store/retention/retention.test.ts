import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { dropOldPartitions } from '../../../server/store/retention/drop-partitions.ts';
import {
  createPartitions,
  parents,
  partitionedTables,
  partitionName,
} from '../../../server/store/retention/partitions.ts';
import { deleteExpiredKeys } from '../../../server/store/retention/retention.ts';
import { send, startAgentApp, storeEvents, subscribed } from '../../helpers/agents.ts';
import { type FreshDatabase, freshDatabase } from '../../helpers/postgres.ts';
import { ofEach } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const RETENTION_DAYS = 3;
const fresh = ofEach(freshDatabase);
/** Maintenance has its own connections. */
let keeper: Database;
const nowMs = Date.now();
const today = Math.floor(nowMs / DAY_MS) * DAY_MS;
const day = (days: number) => partitionedTables.map((table) => partitionName(table, today + days * DAY_MS));

beforeEach(async () => {
  keeper = openDatabase(fresh.conninfo, { connectionsMax: 2, applicationName: 'weir-keeper', onError: () => {} });
  // As if Weir had run every day of the last ones.
  for (let days = -8; days <= 0; days += 4) await createPartitions(fresh.database, nowMs + days * DAY_MS);
});
afterEach(() => keeper.close());

async function tables(database = fresh.database): Promise<string[]> {
  const rows = await database.query<{ name: string }>({
    text: `select relname as name from pg_class where relkind = 'r' and relname ~ '_[0-9]{8}$' order by 1`,
  });
  return rows.map(({ name }) => name);
}

const drop = async () => (await dropOldPartitions(keeper, RETENTION_DAYS, nowMs)).partitions;
const oldDays = [-9, -8, -7, -6, -5, -4].flatMap(day).sort();

test('exactly the days that ended more than RETENTION_DAYS ago are dropped, of both tables', async () => {
  const before = await tables();
  expect((await drop()).sort()).toEqual(oldDays);
  expect(await tables()).toEqual(before.filter((name) => !oldDays.includes(name)));
  expect(await tables()).toContain(day(-3)[0]);
  expect(await drop()).toEqual([]);
});

test('a server cannot choose the name of a file of the archive', async () => {
  // The sessions of this server find the schema `evil` before the catalog.
  for (const text of [
    'create schema evil',
    'create function evil.always(text, text) returns boolean language sql as $$ select true $$',
    'create operator evil.~ (leftarg = text, rightarg = text, function = evil.always)',
    `create view evil.pg_class as
     select oid, relkind, relnamespace, case when relname = '${day(-9)[0]}' then '../${day(-9)[0]}' else relname end::text as relname
     from pg_catalog.pg_class`,
    `alter database ${fresh.name} set search_path = evil, pg_catalog, public`,
  ])
    await fresh.sql(text);
  await keeper.close();
  keeper = openDatabase(fresh.conninfo, { connectionsMax: 2, applicationName: 'weir-keeper', onError: () => {} });
  const archived: string[] = [];
  const archive = async (name: string) => void archived.push(name);
  await expect(dropOldPartitions(keeper, RETENTION_DAYS, nowMs, { archive })).rejects.toThrow(
    'the server does not answer as the database of Weir does',
  );
  expect(archived.filter((name) => name.includes('/'))).toEqual([]);
});

test('no further partition is dropped when Weir stops', async () => {
  const before = await tables();
  let looks = 0;
  const stopping = () => looks++ === 2;
  expect((await dropOldPartitions(keeper, RETENTION_DAYS, nowMs, { stopping })).partitions).toHaveLength(2);
  expect(await tables()).toHaveLength(before.length - 2);
});

test('events of today are kept, and new ones are stored and found', async () => {
  const ids = await storeEvents(fresh.database, '00000000-0000-4000-8000-000000000000', 3);
  await drop();
  expect(await fresh.sql('select from events where id = any ($1::uuid[])', `{${ids.join(',')}}`)).toHaveLength(3);
});

test('deliveries never outlive their events', async () => {
  const dropped = await drop();
  for (let days = -9; days <= -4; days++) {
    const [events, deliveries] = day(days);
    expect(dropped.indexOf(deliveries!), `day ${days}`).toBeLessThan(dropped.indexOf(events!));
  }
});

describe('with a snapshot held in another session', () => {
  test('ingest and claims do not wait for the drop, and the next round completes it', async () => {
    const app = await startAgentApp();
    const weir = openDatabase(app.conninfo, { connectionsMax: 2, applicationName: 'weir-keeper', onError: () => {} });
    const round = () => dropOldPartitions(weir, RETENTION_DAYS, nowMs);
    try {
      const { webhook, agent } = await subscribed(app);
      await createPartitions(weir, nowMs - 8 * DAY_MS);
      await holdSnapshot(app, async () => {
        const waiting = round();
        const waits = () =>
          app.sql(
            `select from pg_stat_activity where application_name = 'weir-keeper' and wait_event_type = 'Lock' and datname = current_database()`,
          );
        await until(async () => (await waits()).length > 0);
        const work = async () => {
          const id = await send(webhook);
          const { receipt, event } = await agent.claimOne();
          await agent.ack([receipt]);
          return event.id === id;
        };
        // Behind the waiting lock, the request would be answered only after the timeout of the drop.
        expect(await Promise.race([work(), waiting])).toBe(true);
        expect(await waiting).toMatchObject({ busy: expect.stringMatching(/^deliveries_/), partitions: [] });
        expect(await work()).toBe(true);
        await until(async () => (await waits()).length === 0);
      });
      expect((await round()).busy).toBeNull();
      expect(await tables(app.database)).not.toContain(day(-8)[0]);
    } finally {
      await weir.close();
      await app.stop();
    }
  });

  test('two machines that drop the same day leave it to the next round', async () => {
    await createPartitions(keeper, nowMs - 8 * DAY_MS);
    await holdSnapshot(fresh, async () => {
      const round = (detachTimeoutMs: number) => dropOldPartitions(keeper, RETENTION_DAYS, nowMs, { detachTimeoutMs });
      await round(500);
      // Both finalize the interrupted detach, and the end of the first ends the other.
      for (const { busy } of await Promise.all([round(1_000), round(300_000)])) expect(busy).toMatch(/^deliveries_/);
    });
    expect(await drop()).toContain(day(-8)[0]);
  });

  test('a detached day that a backup reads is left to the next round', async () => {
    const [events] = day(-5);
    await fresh.sql(`alter table events detach partition ${events}`);
    await fresh.database.transaction(async (query) => {
      await query({ text: `lock table ${events} in access share mode` });
      expect((await dropOldPartitions(keeper, RETENTION_DAYS, nowMs)).busy).toBe(events);
    });
    expect(await drop()).toContain(events);
  });
});

/** Runs `work` while a session has a snapshot of before, and has read all days. */
async function holdSnapshot({ database }: Pick<FreshDatabase, 'database'>, work: () => Promise<void>): Promise<void> {
  await database.transaction(async (query) => {
    await query({ text: 'set transaction isolation level repeatable read' });
    await query({ text: 'select count(*) from events' });
    await query({ text: 'select count(*) from deliveries' });
    await work();
  });
}

test.each(partitionedTables)('a detach of %s that was interrupted is finished', async (table) => {
  const name = partitionName(table, today - 6 * DAY_MS);
  await interruptDetach(parents[table], name);
  const [row] = await fresh.sql<{ pending: boolean }>(
    'select inhdetachpending as pending from pg_inherits where inhrelid = $1::regclass',
    name,
  );
  expect(row).toEqual({ pending: true });
  expect((await drop()).sort()).toEqual(oldDays);
  expect(await drop()).toEqual([]);
});

test('a detached partition that was not dropped is dropped', async () => {
  await fresh.sql(`alter table events detach partition ${day(-5)[0]}`);
  expect((await drop()).sort()).toEqual(oldDays);
});

/** Stops a DETACH CONCURRENTLY between its two transactions, as a kill -9 does. */
async function interruptDetach(table: string, name: string): Promise<void> {
  await fresh.database.transaction(async (query) => {
    await query({ text: `select count(*) from ${table}` });
    const detaching = keeper
      .query({ text: `alter table ${table} detach partition ${name} concurrently` })
      .catch(() => {});
    await until(async () => {
      // Outside of this transaction, which sees one state of pg_stat_activity.
      const rows = await fresh.sql(`select pg_terminate_backend(pid) from pg_stat_activity
               where query like 'alter table ${table} detach%' and wait_event_type = 'Lock' and datname = current_database()`);
      return rows.length > 0;
    });
    await detaching;
  });
}

describe('dedupe keys', () => {
  const insert = (count: number, expiry: string) =>
    fresh.sql(
      `insert into dedupe_keys (webhook_id, key, event_id, expires_at)
             select gen_random_uuid(), sha256(n::text::bytea), gen_random_uuid(), now() + $2::interval from generate_series(1, $1) n`,
      count,
      expiry,
    );
  const left = async () => (await fresh.sql('select from dedupe_keys')).length;

  test.each([0, 1, 10_000, 10_001, 25_000])('%d expired keys are deleted, valid ones are kept', async (count) => {
    await insert(count, '-1 second');
    await insert(7, '1 hour');
    expect(await deleteExpiredKeys(keeper)).toBe(count);
    expect(await left()).toBe(7);
  });

  test('are deleted in parts, and the next part is left to the next round when Weir stops', async () => {
    await insert(10_001, '-1 second');
    expect(await deleteExpiredKeys(keeper, () => true)).toBe(10_000);
    expect(await deleteExpiredKeys(keeper)).toBe(1);
  });

  test('held by another session are left for the next round', async () => {
    await insert(10, '-1 second');
    await fresh.database.transaction(async (query) => {
      await query({ text: 'select from dedupe_keys limit 4 for update' });
      expect(await deleteExpiredKeys(keeper)).toBe(6);
    });
    expect(await deleteExpiredKeys(keeper)).toBe(4);
  });
});
