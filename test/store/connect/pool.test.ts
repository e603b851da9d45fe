import { connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { describe, expect, test } from 'vitest';
import { openPool } from '../../../server/store/connect/client.ts';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { listening } from '../../helpers/ports.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { relayTo } from '../../helpers/relay.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const fresh = shared(freshDatabase);
const database = shared(async () => openDatabase(fresh.conninfo, { connectionsMax: 1, applicationName: 'pool-test' }));

const mode = { text: `select current_setting('plan_cache_mode') as mode`, values: [] };
const modeOf = async (rows: Promise<{ mode: string }[]>) => (await rows)[0]!.mode;

test('a statement planned once does not affect the next one on its connection', async () => {
  expect(await modeOf(database.query({ ...mode, plan: 'once' }))).toBe('force_generic_plan');
  expect(await modeOf(database.query(mode))).toBe('auto');
  expect(await modeOf(database.query({ ...mode, plan: 'once' }))).toBe('force_generic_plan');
  expect(await modeOf(database.transaction((query) => query(mode)))).toBe('auto');
});

test('a keyed statement is planned once, with indexes and nested loops only', async () => {
  const seqscan = { text: `select current_setting('enable_seqscan') as mode`, values: [] };
  expect(await modeOf(database.query({ ...mode, plan: 'keyed' }))).toBe('force_generic_plan');
  expect(await modeOf(database.query({ ...seqscan, plan: 'keyed' }))).toBe('off');
  expect(await modeOf(database.query({ ...seqscan, plan: 'once' }))).toBe('on');
  expect(await modeOf(database.query(mode))).toBe('auto');
});

test('a statement without values takes the connection as it is', async () => {
  await database.query({ ...mode, plan: 'once' });
  expect(await modeOf(database.query({ text: mode.text }))).toBe('force_generic_plan');
});

test('a statement that its socket does not take at once is sent whole, and so is the next one', async () => {
  const long = 'x'.repeat(20_000_000);
  const length = { text: 'select length($1) as length, md5($1)', values: [long] };
  const [first] = await database.query<{ length: number; md5: string }>(length);
  expect(first!.length).toBe(long.length);
  expect(await database.query(length)).toEqual([first]);
  expect(await modeOf(database.query(mode))).toBe('auto');
});

test('a statement over its time limit counts as lost, and the pool continues', async () => {
  const slow = database.query({ text: 'select pg_sleep(600)', timeoutMs: 100 });
  await expect(slow).rejects.toThrow(DatabaseUnavailable);
  expect(await modeOf(database.query(mode))).toBe('auto');
});

test('a statement that the server cancels counts as an outage, and its connection continues', async () => {
  const pid = async () => (await database.query<{ pid: number }>({ text: 'select pg_backend_pid() as pid' }))[0]!.pid;
  const before = await pid();
  await expect(database.query({ text: 'select pg_cancel_backend(pg_backend_pid()), pg_sleep(600)' })).rejects.toThrow(
    DatabaseUnavailable,
  );
  expect(await pid()).toBe(before);
});

test('a failed statement rejects for its caller, and the pool continues', async () => {
  await expect(database.query({ text: 'select 1 / 0' })).rejects.toThrow('division by zero');
  expect(await modeOf(database.query(mode))).toBe('auto');
});

describe('the connection of a refused statement', () => {
  const pid = async () => (await database.query<{ pid: number }>({ text: 'select pg_backend_pid() as pid' }))[0]!.pid;
  const repeated = {
    name: 'repeated',
    text: 'insert into dedupe_keys (webhook_id, key, event_id, expires_at) select $1, $2, $1, now() from generate_series(1, 2)',
    values: ['00000000-0000-7000-8000-000000000000', Buffer.alloc(32)],
  };

  test.each<[string, string, () => Promise<unknown>]>([
    ['alone', '23505', () => database.query(repeated)],
    ['in a transaction', '23505', () => database.transaction((query) => query(repeated))],
    ['sent as a simple query', '22012', () => database.query({ text: 'select 1; select 1 / 0; select 2' })],
  ])('stays open: %s', async (_, code, refused) => {
    const before = await pid();
    await expect(refused()).rejects.toMatchObject({ code });
    await expect(refused()).rejects.toMatchObject({ code });
    expect(await pid()).toBe(before);
  });

  test('is closed in a transaction that the statement left open', async () => {
    const before = await pid();
    await expect(database.query({ text: 'begin; select 1 / 0' })).rejects.toMatchObject({ code: '22012' });
    expect(await pid()).not.toBe(before);
  });

  test('is closed when its prepared statement is outdated, so the statement is prepared again', async () => {
    await database.query({ text: 'create table outdated (a int)' });
    const statement = { name: 'outdated', text: 'select * from outdated where $1::int = 1', values: [1] };
    await database.query(statement);
    await database.query({ text: 'alter table outdated add b int' });
    await expect(database.query(statement)).rejects.toMatchObject({ code: '0A000' });
    expect(await database.query(statement)).toEqual([]);
  });
});

test('a statement on a function that another session has just changed is repeated', async () => {
  const replace = { text: `create or replace function changed() returns int language sql as 'select 1'` };
  await database.query(replace);
  let second: Promise<unknown>;
  await fresh.database.transaction(async (query) => {
    await query(replace);
    second = database.query(replace);
    const waiting = 'select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid))';
    await until(async () => (await query({ text: waiting })).length > 0);
  });
  expect(await second!).toEqual([]);
});

test('a failed transaction rejects with its reason and is rolled back', async () => {
  const failing = database.transaction(async (query) => {
    await query({ text: 'create table left_over ()' });
    throw new Error('changed my mind');
  });
  await expect(failing).rejects.toThrow('changed my mind');
  expect(await database.query({ text: `select to_regclass('left_over') as found` })).toEqual([{ found: null }]);
});

test('a connection lost in a transaction fails the transaction, not the process', async () => {
  const failing = database.transaction((query) => query({ text: 'select pg_terminate_backend(pg_backend_pid())' }));
  await expect(failing).rejects.toThrow();
  expect(await modeOf(database.query(mode))).toBe('auto');
});

test('a connection lost between the statements of a transaction does not affect later sockets of its number', async () => {
  const port = await listening(createServer((socket) => socket.end('heard')));
  const failing = database.transaction(async (query) => {
    const [{ pid }] = (await query({ text: 'select pg_backend_pid() as pid' })) as [{ pid: number }];
    await fresh.sql('select pg_terminate_backend($1)', pid);
    const alive = { text: 'select from pg_stat_activity where pid = $1', values: [pid] };
    await until(async () => (await fresh.database.query(alive)).length === 0);
    for (let i = 0; i < 20; i++) expect(await text(connect(port, '127.0.0.1'))).toBe('heard');
    await query({ text: 'select 1' });
  });
  await expect(failing).rejects.toThrow(DatabaseUnavailable);
  expect(await modeOf(database.query(mode))).toBe('auto');
});

test('a connection that is made after the time limit of the pool is used', async () => {
  const timeoutMs = 500;
  const relay = await relayTo(fresh, 2 * timeoutMs);
  const pool = openPool(relay.url, { connectionsMax: 1, timeoutMs });
  expect((await pool.query('select 1 as one')).rows).toEqual([{ one: 1 }]);
  await pool.end();
  relay.close();
});

test('a connection that is reset while a statement runs counts as lost', async () => {
  const relay = await ofTest(relayTo(fresh));
  const far = await ofTest(
    openDatabase(relay.url, { connectionsMax: 1, applicationName: 'pool-test', onError: () => {} }),
  );
  await expect(far.query({ text: 'select 1 / 0' })).rejects.toMatchObject({ code: '22012' });
  const waiting = expect(far.query({ text: 'select pg_sleep(599)' })).rejects.toMatchObject({
    constructor: DatabaseUnavailable,
    code: undefined,
  });
  const sleeping = { text: `select from pg_stat_activity where query = 'select pg_sleep(599)'` };
  await until(async () => (await fresh.database.query(sleeping)).length === 1);
  relay.reset();
  await waiting;
});

test('a value that is not of its type fails its statement, not the process', async () => {
  // The description of a column: the oid of its type, text, becomes that of json.
  const says = (bytes: Buffer) =>
    Buffer.from(bytes.toString('latin1').replaceAll('\0\0\0\x19\xff\xff', '\0\0\0\x72\xff\xff'), 'latin1');
  const relay = await ofTest(relayTo(fresh, 0, says));
  const hostile = await ofTest(openDatabase(relay.url, { connectionsMax: 1, applicationName: 'pool-test' }));
  for (const values of [undefined, []]) {
    const refused = hostile.query({ text: `select '{'::text as broken`, ...(values && { values }) });
    await expect(refused).rejects.toThrow(DatabaseUnavailable);
  }
  expect(await hostile.query({ text: 'select 1 as one' })).toEqual([{ one: 1 }]);
});

test('a statement over its time limit after a refused one counts as lost, and not as refused again', async () => {
  await expect(database.query({ text: 'select 1 / 0' })).rejects.toMatchObject({ code: '22012' });
  const slow = database.query({ text: 'select pg_sleep(600)', timeoutMs: 100 });
  await expect(slow).rejects.toMatchObject({ constructor: DatabaseUnavailable, code: undefined });
});
