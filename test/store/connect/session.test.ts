/** Sessions of Weir on a database whose settings would break it. */
import { beforeAll, describe, expect, test } from 'vitest';
import { type Database, openDatabase } from '../../../server/store/connect/pool.ts';
import { ownSettings, sessionSetup } from '../../../server/store/connect/session.ts';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { CopyConnection } from '../../../server/store/copy/connection.ts';
import { emptyDatabase } from '../../helpers/postgres.ts';
import { relayTo } from '../../helpers/relay.ts';
import { shared } from '../../helpers/shared.ts';

/** What a role or a database may set, by the name of the setting. */
const hostile: Record<string, string> = {
  exit_on_error: 'on',
  statement_timeout: '1h',
  lock_timeout: '1h',
  idle_in_transaction_session_timeout: '1h',
  idle_session_timeout: '1h',
  transaction_timeout: '1h',
  tcp_keepalives_idle: '7200',
  tcp_keepalives_interval: '75',
  tcp_keepalives_count: '9',
  standard_conforming_strings: 'off',
  backslash_quote: 'off',
  array_nulls: 'off',
  transform_null_equals: 'on',
  client_encoding: 'LATIN1',
  TimeZone: 'Asia/Kathmandu',
  DateStyle: 'German, DMY',
  IntervalStyle: 'iso_8601',
  bytea_output: 'escape',
  extra_float_digits: '-15',
  default_transaction_isolation: 'serializable',
  default_transaction_deferrable: 'on',
  synchronous_commit: 'off',
  session_replication_role: 'replica',
  client_min_messages: 'debug5',
  jit: 'on',
};
/** What an operator sets on purpose. */
const kept: Record<string, string> = {
  search_path: 'elsewhere',
  work_mem: '7MB',
  default_transaction_read_only: 'on',
  enable_nestloop: 'off',
  lc_numeric: 'C',
};

const fresh = shared(emptyDatabase);
const relay = shared(() => relayTo(fresh));
let known: Set<string>;
beforeAll(async () => {
  const rows = await fresh.sql<{ name: string }>('select name from pg_settings');
  known = new Set(rows.map(({ name }) => name));
  for (const [name, value] of Object.entries({ ...hostile, ...kept }))
    if (known.has(name)) await fresh.sql(`alter database ${fresh.name} set ${name} = ${quoted(value)}`);
});

const quoted = (value: string) => (value.includes(',') ? value : `'${value}'`);
const asked = ownSettings.map(({ name }) => name);
const text = `select name, current_setting(name, true) as value from unnest('{${[...asked, ...Object.keys(kept)].join(',')}}'::text[]) name`;
/** A server that is reached over a socket of its machine shows 0 for the keep-alives. */
const shown = (name: string, value: string) => {
  if (!known.has(name)) return null;
  return name.startsWith('tcp_') ? '0' : value;
};
const wanted = () => {
  const own = ownSettings.map(({ name, value }) => [name, shown(name, value)]);
  return Object.fromEntries([...own, ...Object.entries(kept)]);
};
async function settingsOf(database: Database): Promise<Record<string, string | null>> {
  const rows = await database.query<{ name: string; value: string | null }>({ text }).finally(() => database.close());
  return Object.fromEntries(rows.map(({ name, value }) => [name, value]));
}
const open = (conninfo: string) => openDatabase(conninfo, { connectionsMax: 1, applicationName: 'session-test' });

test('each setting of Weir has a value here that would change it', () => {
  expect(Object.keys(hostile)).toEqual(asked);
});

describe('what the database sets is replaced where Weir depends on it, and kept elsewhere,', () => {
  test('in a pool', async () => {
    expect(await settingsOf(open(relay.url))).toEqual(wanted());
  });

  test('in a session that listens', async () => {
    const database = open(relay.url);
    const rows = await database.listening(
      'anything',
      () => {},
      (query) => query<{ name: string; value: string }>({ text }),
    );
    await database.close();
    expect(Object.fromEntries(rows.map(({ name, value }) => [name, value]))).toEqual(wanted());
  });

  test('and so are options of the connection string', async () => {
    const options = encodeURIComponent('-c standard_conforming_strings=off -c search_path=here');
    expect(await settingsOf(open(`${relay.url}&options=${options}`))).toEqual({ ...wanted(), search_path: 'here' });
  });
});

test('a session for COPY has the settings of Weir, and memory of its own', async () => {
  await fresh.sql(`alter database ${fresh.name} set default_transaction_read_only = off`);
  const connection = await CopyConnection.connect(relay.url, () => {});
  const names = [...asked, 'work_mem'].filter((name) => known.has(name));
  const values = await connection.run(`select current_setting(name) from unnest('{${names.join(',')}}'::text[]) name`);
  connection.close();
  const own = Object.fromEntries(ownSettings.map(({ name, value }) => [name, shown(name, value)]));
  expect(Object.fromEntries(names.map((name, i) => [name, values[i]]))).toEqual(
    Object.fromEntries(names.map((name) => [name, name === 'work_mem' ? '32MB' : own[name]])),
  );
});

test.each(['remote_apply', 'remote_write', 'local'])(
  'a level of synchronous_commit that is durable is kept: %s',
  async (level) => {
    const database = open(`${relay.url}&options=-c%20synchronous_commit%3D${level}`);
    expect((await settingsOf(database)).synchronous_commit).toBe(level);
  },
);

test('the server ends the session of a machine that is cut off within 25 seconds', () => {
  const seconds = ownSettings.filter(({ name }) => name.startsWith('tcp_')).map(({ value }) => Number(value));
  const [idle, interval, count] = seconds as [number, number, number];
  expect(idle + interval * count).toBe(25);
  expect(sessionSetup()).toContain("('tcp_keepalives_idle', '10', null)");
});

test('a role that may not have triggers run is refused', async () => {
  const role = `limited_${fresh.name}`;
  await fresh.sql(`create role ${role} login`);
  const database = open(fresh.conninfo.replace(/user='?\w+'?/, `user=${role}`));
  try {
    await expect(database.query({ text: 'select 1' })).rejects.toMatchObject({
      constructor: DatabaseUnavailable,
      code: '42501',
      message: expect.stringContaining('session_replication_role'),
    });
  } finally {
    await database.close();
    await fresh.sql(`drop role ${role}`);
  }
});
