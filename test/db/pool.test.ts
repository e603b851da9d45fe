import { once } from 'node:events';
import { type AddressInfo, connect, createServer } from 'node:net';
import { text } from 'node:stream/consumers';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { type Database, DatabaseUnavailable, openDatabase } from '../../server/db/pool.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { until } from '../helpers/wait.ts';

let fresh: FreshDatabase;
let database: Database;

beforeAll(async () => {
  fresh = await freshDatabase();
  database = openDatabase(fresh.conninfo, { connectionsMax: 1, applicationName: 'pool-test' });
});

afterAll(async () => {
  await database.close();
  await fresh.drop();
});

const mode = { text: `select current_setting('plan_cache_mode') as mode` };
const modeOf = async (rows: Promise<{ mode: string }[]>) => (await rows)[0]!.mode;

test('a statement planned once does not affect the next one on its connection', async () => {
  expect(await modeOf(database.query({ ...mode, plan: 'once' }))).toBe('force_generic_plan');
  expect(await modeOf(database.query(mode))).toBe('auto');
  expect(await modeOf(database.query({ ...mode, plan: 'once' }))).toBe('force_generic_plan');
  expect(await modeOf(database.transaction((query) => query(mode)))).toBe('auto');
});

test('a statement over its time limit counts as lost, and the pool continues', async () => {
  const slow = database.query({ text: 'select pg_sleep(600)', timeoutMs: 100 });
  await expect(slow).rejects.toThrow(DatabaseUnavailable);
  expect(await modeOf(database.query(mode))).toBe('auto');
});

test('a failed statement rejects for its caller, and the pool continues', async () => {
  await expect(database.query({ text: 'select 1 / 0' })).rejects.toThrow('division by zero');
  expect(await modeOf(database.query(mode))).toBe('auto');
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
  const server = createServer((socket) => socket.end('heard')).listen(0, '127.0.0.1');
  await once(server, 'listening');
  const { port } = server.address() as AddressInfo;
  const failing = database.transaction(async (query) => {
    const [{ pid }] = (await query({ text: 'select pg_backend_pid() as pid' })) as [{ pid: number }];
    await fresh.database.query({ text: 'select pg_terminate_backend($1)', values: [pid] });
    const alive = { text: 'select from pg_stat_activity where pid = $1', values: [pid] };
    await until(async () => (await fresh.database.query(alive)).length === 0);
    for (let i = 0; i < 20; i++) expect(await text(connect(port, '127.0.0.1'))).toBe('heard');
    await query({ text: 'select 1' });
  });
  await expect(failing).rejects.toThrow(DatabaseUnavailable);
  expect(await modeOf(database.query(mode))).toBe('auto');
  server.close();
});
