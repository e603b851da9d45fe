import { chmod, rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readSettings } from '../../../server/base/settings/read.ts';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { checkDatabase } from '../../../server/operate/doctor/database.ts';
import { type AttachedDatabase, attachDatabase, migrateAttached } from '../../../server/store/open.ts';
import { createPartitions, partitionedTables, partitionName } from '../../../server/store/retention/partitions.ts';
import { checkWritable } from '../../../server/store/server-checks.ts';
import { freePort } from '../../helpers/ports.ts';
import { type Sql, sqlOf } from '../../helpers/postgres.ts';
import { settingsOf, someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { made, newWebhook, webhooksOf } from '../../helpers/webhooks.ts';

const otherKey = Buffer.alloc(32, 9).toString('base64');
const password = 'geheim-und-lang';
const dataDir = temporaryDirectory();
let attached: AttachedDatabase;
const sql: Sql = (text, ...values) => sqlOf(attached.database)(text, ...values);

beforeAll(async () => {
  await chmod(dataDir, 0o711);
  attached = await attachDatabase(embedded(), () => {}, { joinSmaller: false });
  await migrateAttached(attached, embedded(), () => {});
});

afterAll(async () => {
  await attached.detach();
  await rm(dataDir, { recursive: true, force: true });
});

describe('the doctor checks the database', () => {
  test('that does not exist yet, and does not create it', async () => {
    expect(states(await examine({ settings: settingsOf({}) }))).toEqual(['database ok']);
  });

  test('that is embedded and running; partitions are created with the start', async () => {
    expect(states(await examine({}))).toEqual([
      'database ok',
      'connections ok',
      'durability ok',
      'wal ok',
      'autovacuum ok',
      'clock ok',
      'migrations ok',
      'partitions advice',
      'stored_secrets ok',
      'undelivered ok',
      'administrators advice',
      'audit_log ok',
      'alerts ok',
    ]);
  });

  test('whose partitions are missing while Weir runs', async () => {
    expect(states(await examine({ running: true }))).toContain('partitions problem');
  });

  test('whose partitions exist', async () => {
    await createPartitions(attached.database, Date.now());
    expect(states(await examine({ running: true }))).toEqual(expect.arrayContaining(['partitions ok', 'commit ok']));
  });

  test.each([
    [
      '53100',
      'could not extend file: No space left on device',
      /does not commit events: its disk is full \(53100: /,
      /free space/,
    ],
    ['53200', 'out of memory', /out of memory/, /more memory/],
    ['XX000', 'an index is corrupt', /: it reports an error \(XX000: an index is corrupt\)$/, /log of Postgres/],
  ])('that does not commit: %s', async (sqlState, message, finding, fix) => {
    await run(`
      create function fail() returns trigger language plpgsql as
        $$ begin raise sqlstate '${sqlState}' using message = '${message}'; end $$;
      create trigger fail before insert on events for each row execute function fail()`);
    const check = (await examine({ running: true })).find(({ name }) => name === 'commit');
    await run('drop function fail cascade');
    expect(check).toEqual({
      name: 'commit',
      state: 'problem',
      finding: expect.stringMatching(finding),
      fix: expect.stringMatching(fix),
    });
  });

  test('that has no connection left', async () => {
    const role = 'create role narrow login connection limit 0';
    await run(role);
    const conninfo = `${attached.conninfo.replace(/user=\S+/, '')} user=narrow`;
    const [check] = await examine({ settings: settingsOf({ DATABASE_URL: conninfo, SECRETS_KEY: someKey }) });
    await run('drop role narrow');
    expect(check).toMatchObject({
      name: 'database',
      state: 'problem',
      finding: expect.stringContaining('too many connections'),
      fix: expect.stringContaining('raise max_connections'),
    });
  });

  test.each(partitionedTables)('that lacks a partition of %s among those that are made', async (table) => {
    const name = partitionName(table, Date.now() + 3 * DAY_MS);
    await run(`drop table ${name}`);
    const check = (await examine({ running: true })).find((each) => each.name === 'partitions');
    await createPartitions(attached.database, Date.now());
    expect(check).toMatchObject({ state: 'problem', finding: expect.stringContaining(`missing: ${name};`) });
  });

  test.each([
    ['has an administrator with a password', {}, 'ok', /one administrator can sign in/],
    ['has one without a password', { password_hash: null }, 'advice', /no administrator can sign in/],
    ['has one who is disabled', { disabled_at: 'now' }, 'advice', /no administrator can sign in/],
    ['has an operator alone', { role: 'operator' }, 'advice', /no administrator can sign in/],
  ])('that %s', async (_, given, state, finding) => {
    const user = { role: 'administrator', password_hash: '$argon2id$', disabled_at: null, ...given };
    await sql(
      `insert into users (id, email, role, password_hash, disabled_at)
             values (gen_random_uuid(), 'a@example.org', $1, $2, $3)`,
      user.role,
      user.password_hash,
      user.disabled_at,
    );
    const check = (await examine({})).find(({ name }) => name === 'administrators');
    await run('delete from users');
    expect([check!.state, check!.finding]).toEqual([state, expect.stringMatching(finding)]);
    if (state === 'advice') expect(check!.fix).toMatch(/ADMIN_EMAIL.*weir user add/);
  });

  test.each([
    ['names one', 'administrator', 'ok', /provider/, null],
    [
      'names none',
      'operator',
      'advice',
      /no user is an administrator/,
      expect.stringMatching(/provider.*weir user set-role/),
    ],
  ] as const)('whose administrator the provider %s', async (_, role, state, finding, fix) => {
    await sql(
      `insert into users (id, email, role, issuer, subject) values (gen_random_uuid(), 'a@example.org', $1, 'https://id.example', 'a')`,
      role,
    );
    const checks = await examine({ settings: { ...embedded(), AUTH_MODE: 'hosted' } });
    await run('delete from users');
    expect(checks.find(({ name }) => name === 'administrators')).toEqual({
      name: 'administrators',
      state,
      finding: expect.stringMatching(finding),
      fix,
    });
  });

  test.each([
    [
      'was changed among the newest entries',
      1_200,
      `update audit_log set entry = '{}' where number = 1199`,
      'problem',
      /Entry 1199/,
    ],
    ['lost one of them', 1_200, 'delete from audit_log where number = 1150', 'problem', /Entry 1150 is missing/],
    ['has few', 3, 'select', 'ok', /^3 entries; the newest 3 verify/],
    [
      'has many, and an old one was changed',
      1_200,
      `update audit_log set entry = '{}' where number = 7`,
      'ok',
      /^1200 entries; the newest 1000 verify/,
    ],
  ])('whose audit log %s', async (_, entries, change, state, finding) => {
    const off = 'alter table audit_log disable trigger audit_log_append_only';
    const on = 'alter table audit_log enable trigger audit_log_append_only';
    await run(`${off}; truncate audit_log; ${on}; insert into audit_log (number, entry, hash, previous_hash)
      with recursive more as (
        select 0 as number, '' as entry, decode(repeat('00', 32), 'hex') as hash, ''::bytea as previous_hash
        union all
        select m.number + 1, e.entry, sha256(m.hash || convert_to(e.entry, 'UTF8')), m.hash
        from more m, lateral (select '{"n":' || m.number || '}' as entry) e where m.number < ${entries}
      ) select number, entry::json, hash, previous_hash from more where number > 0`);
    await run(`${off}; ${change}; ${on}`);
    const check = (await examine({})).find(({ name }) => name === 'audit_log');
    await run(`${off}; truncate audit_log; ${on}`);
    expect([check!.state, check!.finding]).toEqual([state, expect.stringMatching(finding)]);
  });

  test('whose audit log can be changed', async () => {
    await run('alter table audit_log disable trigger audit_log_append_only');
    const check = (await examine({})).find(({ name }) => name === 'audit_log');
    await run('alter table audit_log enable trigger audit_log_append_only');
    expect(check).toMatchObject({ state: 'problem', finding: expect.stringContaining('trigger is off') });
  });

  test.each([
    ['fsync', 'system'],
    ['full_page_writes', 'system'],
  ])('whose setting %s could lose committed events', async (setting, where) => {
    /** A reload takes effect after the statement that asks for it. */
    const changed = async (change: string, state: string) => {
      await run(`alter ${where} ${change}`);
      await run('select pg_reload_conf()');
      return until(async () => (await examine({})).find((each) => each.name === 'durability' && each.state === state));
    };
    const check = await changed(`set ${setting} = off`, 'problem');
    await changed(`reset ${setting}`, 'ok');
    expect(check.finding).toContain(`${setting} is off`);
    expect(check.fix).toContain(`alter system set ${setting} = on;`);
  });

  test('that keeps few WAL files', async () => {
    await run(`alter system set min_wal_size = '80MB'`);
    onTestFinished(async () => void (await run('alter system reset min_wal_size')));
    await run('select pg_reload_conf()');
    const check = await until(async () =>
      (await examine({})).find(({ name, state }) => name === 'wal' && state === 'advice'),
    );
    expect(check.finding).toContain('keeps 80 MB of WAL files');
    expect(check.fix).toContain(`alter system set min_wal_size = '2GB';`);
  });

  test.each([
    ['the key that they were stored under', [someKey], 'ok'],
    ['that key as the previous one', [otherKey, someKey], 'advice'],
    ['another key', [otherKey], 'problem'],
    ['no key', null, 'problem'],
  ])('whose secrets are decrypted with %s', async (_, keys, state) => {
    const webhooks = webhooksOf(attached, [someKey]);
    const { id } = made(await webhooks.add(newWebhook({ secret: 'geheim' })));
    const check = (await examine({ keys })).find(({ name }) => name === 'stored_secrets');
    await webhooks.remove(id);
    expect(check!.state).toBe(state);
    if (state !== 'ok') expect(check!.finding).toContain(`(test ${id})`);
    expect(JSON.stringify(check)).not.toContain('geheim');
  });

  test.each([
    ['is too old for this release', 'update schema_migrations set version = version - 20', 'problem'],
    ['is newer than this release', `insert into schema_migrations values (9999, 'later')`, 'problem'],
    ['is empty', 'alter table schema_migrations rename to elsewhere', 'ok'],
  ])('whose schema %s', async (_, sql, state) => {
    await run('create table kept as select * from schema_migrations');
    await run(sql);
    const check = (await examine({})).find(({ name }) => name === 'migrations');
    await run('alter table if exists elsewhere rename to schema_migrations');
    await run('truncate schema_migrations; insert into schema_migrations select * from kept; drop table kept');
    expect(check!.state).toBe(state);
  });

  test('that is embedded and has too few connections', async () => {
    const settings = readSettings(
      { DATABASE_URL: attached.conninfo, SECRETS_KEY: someKey, WORKERS: '100', DATA_DIR: dataDir },
      dataDir,
    );
    const check = (await examine({ settings })).find(({ name }) => name === 'connections');
    expect(check).toMatchObject({ state: 'problem', fix: 'lower one of them or raise max_connections' });
  });

  test('that does not respond, and hides its password', async () => {
    const address = `postgres://weir:${password}@127.0.0.1:${await freePort()}/weir`;
    const settings = settingsOf({ DATABASE_URL: address, SECRETS_KEY: someKey });
    const checks = await examine({ settings });
    expect(states(checks)).toEqual(['database problem']);
    expect(checks[0]!.finding).toContain('Connection refused');
    expect(checks[0]!.finding).not.toMatch(/[\n\t]/);
    expect(JSON.stringify(checks)).not.toContain(password);
  });
});

test.each([
  ['a standby', { standby: true }],
  ['one that is read-only by default', { read_only: 'on' }],
  ['one where our user may make no tables', { may_create: false }],
])('%s accepts no events', (_, facts) => {
  const good = {
    version: '17.2',
    version_number: 170_002,
    encoding: 'UTF8',
    standby: false,
    read_only: 'off',
    may_create: true,
    fsync: 'on',
    synchronous_commit: 'on',
    full_page_writes: 'on',
    min_wal_mb: 2_048,
  };
  expect(checkWritable(good)).toBe(null);
  expect(checkWritable({ ...good, ...facts })).toMatchObject({ state: 'problem' });
});

const embedded = () => readSettings({ DATA_DIR: dataDir, WORKERS: '1' }, dataDir);
const states = (checks: { name: string; state: string }[]) => checks.map(({ name, state }) => `${name} ${state}`);
const run = (text: string) => sql(text);

function examine(given: Partial<Parameters<typeof checkDatabase>[0]>) {
  const usual = { settings: embedded(), keys: [someKey], running: false, nowMs: Date.now };
  return checkDatabase({ ...usual, ...given }, () => {});
}
