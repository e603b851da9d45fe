/** Faults of a separate real Postgres with changed settings. */
import { randomUUID } from 'node:crypto';
import { chmod, rm } from 'node:fs/promises';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { readSettings } from '../../../server/base/settings/read.ts';
import { DAY_MS } from '../../../server/base/time/durations.ts';
import { checkDatabase, serverChecks } from '../../../server/operate/doctor/database.ts';
import { type Reached, schemaChecks } from '../../../server/operate/doctor/schema.ts';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import {
  type AttachedDatabase,
  attachDatabase,
  connectionsNeeded,
  migrateAttached,
} from '../../../server/store/open.ts';
import { createPartitions } from '../../../server/store/retention/partitions.ts';
import { type Sql, sqlOf } from '../../helpers/postgres.ts';
import { someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

/** The embedded server has connections for at least so many. */
const WORKERS = '8';

const dataDir = temporaryDirectory();
let attached: AttachedDatabase;
const sql: Sql = (text, ...values) => sqlOf(attached.database)(text, ...values);
beforeAll(async () => {
  await chmod(dataDir, 0o711);
  const settings = readSettings({ DATA_DIR: dataDir, WORKERS, DB_POOL_MAX: '4' }, dataDir);
  attached = await attachDatabase(settings, () => {}, { joinSmaller: false });
  await migrateAttached(attached, settings, () => {});
});
afterAll(async () => {
  await attached.detach();
  await rm(dataDir, { recursive: true, force: true });
});

const run = (text: string) => sql<{ value: string }>(text);
/** What these checks read. */
const reached = (given: Partial<Reached> = {}) =>
  ({ database: attached.database, settings: asServer(), nowMs: Date.now, ...given }) as Reached;
const asServer = () =>
  readSettings({ DATABASE_URL: attached.conninfo, SECRETS_KEY: someKey, WORKERS, DB_POOL_MAX: '4' }, dataDir);

test('the doctor reports the oldest unfinished job when it makes no progress', async () => {
  const add = (minutes: number) =>
    run(`insert into jobs (id, kind, filter, until, created_by, created_at, updated_at)
      select gen_random_uuid(), 'replay_events', '{}', now(), '{}', t, t from (select now() - interval '${minutes} minutes' as t) at`);
  expect(await schemaChecks.jobs(reached())).toBe(null);
  await add(4);
  expect(await schemaChecks.jobs(reached())).toBe(null);
  await add(12);
  expect(await schemaChecks.jobs(reached())).toMatchObject({
    state: 'advice',
    finding: expect.stringMatching(/^job \S+ has made no progress for 12 minutes$/),
  });
  await run('delete from jobs');
});

describe('the doctor checks autovacuum', () => {
  test('that is on', async () => {
    expect(await serverChecks.autovacuum(reached())).toMatchObject({ state: 'ok' });
  });

  test.each(['autovacuum', 'track_counts'])('with %s off on the server', async (setting) => {
    await alterSystem(setting, 'off');
    const check = await serverChecks.autovacuum(reached());
    await alterSystem(setting, 'on');
    expect(check).toMatchObject({ state: 'problem', finding: expect.stringContaining(`${setting} is off`) });
    expect(check.fix).toContain(`alter system set ${setting} = on;`);
  });

  test.each(['autovacuum_enabled', 'toast.autovacuum_enabled'])('that %s turns off for a table', async (option) => {
    await run(`alter table webhooks set (${option} = false)`);
    const check = await serverChecks.autovacuum(reached());
    await run(`alter table webhooks reset (${option})`);
    expect(check).toMatchObject({ state: 'problem', finding: expect.stringContaining('off for webhooks:') });
  });

  async function alterSystem(setting: string, value: string): Promise<void> {
    await run(`alter system set ${setting} = ${value}`);
    await run('select pg_reload_conf()');
    await until(async () => (await run(`select current_setting('${setting}') as value`))[0]!.value === value);
  }
});

describe('the doctor compares the clock with that of the database', () => {
  test.each([
    ['agrees', 0, 'ok', /agree/],
    ['differs by less than a second', 700, 'ok', /agree/],
    ['is a little ahead', 5_000, 'advice', /[45]\.\d s ahead of/],
    ['is a little behind', -3_000, 'advice', /[23]\.\d s behind/],
    ['is far ahead', 60_000, 'problem', /(60\.0|59\.\d) s ahead of/],
    ['is far behind', -60_000, 'problem', /(60\.0|59\.\d) s behind/],
  ])('which %s', async (_, differenceMs, state, finding) => {
    const check = await serverChecks.clock(reached({ nowMs: () => Date.now() + differenceMs }));
    expect([check.state, check.finding]).toEqual([state, expect.stringMatching(finding)]);
  });

  test('and does not report a slow response as a clock error', async () => {
    const times = [Date.now() - 60_000, Date.now() + 60_000];
    expect((await serverChecks.clock(reached({ nowMs: () => times.shift()! }))).state).toBe('ok');
  });
});

describe('the doctor counts the connections of a server', () => {
  test('that has enough: those of Weir itself are not counted as others', async () => {
    await Promise.all([run('select pg_sleep(0.1)'), run('select pg_sleep(0.1)')]);
    expect(await serverChecks.connections(reached())).toMatchObject({
      state: 'ok',
      finding: expect.stringMatching(/^Weir opens up to (\d+); the server allows \1, and other clients use 0$/),
    });
  });

  test('that has too few because another client holds one', async () => {
    const conninfo = `${attached.conninfo} application_name=psql`;
    const other = await ofTest(openDatabase(conninfo, { connectionsMax: 1, applicationName: 'unused' }));
    await other.query({ text: 'select 1' });
    const needed = connectionsNeeded(asServer());
    const check = await serverChecks.connections(reached());
    expect(check).toMatchObject({
      state: 'problem',
      finding: `other clients use 1 of the ${needed} connections that the server allows: ${needed - 1} are left, and Weir opens up to ${needed}`,
    });
    expect(check.fix).toContain(`raise max_connections to ${needed + 4} or more`);
  });
});

test('on a server database the doctor reports all of this, and its size', async () => {
  const nowMs = () => Date.now() + 60_000;
  const checks = await checkDatabase({ settings: asServer(), keys: [someKey], running: false, nowMs }, () => {});
  expect(checks.slice(0, 7).map(({ name, state }) => `${name} ${state}`)).toEqual([
    'database ok',
    'connections ok',
    'database_size ok',
    'durability ok',
    'wal ok',
    'autovacuum ok',
    'clock problem',
  ]);
  expect(checks[2]!.finding).toMatch(/^0\.0 GiB, .*cannot see the free space/);
});

test('the doctor says what yesterday has added to the database, and how far it grows until retention removes as much', async () => {
  const yesterdayMs = Date.now() - DAY_MS;
  await createPartitions(attached.database, Date.now());
  await sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
      select gen_random_uuid(), gen_random_uuid(), $1, '127.0.0.1', '', convert_to(repeat('x', 1048576), 'UTF8'), 1048576 from generate_series(1, 3)`,
    new Date(yesterdayMs).toISOString(),
  );
  const settings = { ...asServer(), RETENTION_DAYS: 2_050 };
  // 3 MiB a day of 2,048 more days, with their pages and indexes.
  const check = (nowMs: number) => serverChecks.database_size(reached({ settings, nowMs: () => nowMs }));
  const expected = (gib: string) =>
    expect.stringMatching(
      `^0[.]0 GiB, of which 0[.]0 GiB were received yesterday: ${gib} GiB when RETENTION_DAYS [(]2050[)]`,
    );
  expect(await check(Date.now())).toMatchObject({ state: 'ok', finding: expected('6[.][0-9]') });
  expect(await check(Date.now() + 3_000 * DAY_MS)).toMatchObject({ finding: expected('0[.]0') });
  await run('truncate events');
});

const usual = {
  ALERT_URL: 'http://8.8.8.8/SECRET',
  ALERT_SECRET: 'whsec_x',
  ALERT_PRIVATE_NETWORKS: 'refuse',
} as const;
const check = (given: object = {}) => schemaChecks.alerts(reached({ settings: { ...asServer(), ...usual, ...given } }));

test('the doctor checks where alerts are sent, and whether the latest request arrived', async () => {
  expect(await check({ ALERT_URL: undefined })).toMatchObject({ state: 'ok', finding: expect.stringMatching(/unset/) });
  expect(await check()).toMatchObject({ state: 'ok', finding: 'alerts are sent to 8.8.8.8' });
  expect(await check({ ALERT_SECRET: undefined })).toMatchObject({
    state: 'advice',
    finding: expect.stringMatching(/not signed/),
  });
  expect(await check({ ALERT_URL: 'http://10.0.0.1/' })).toMatchObject({
    state: 'problem',
    finding: expect.stringMatching(/10\.0\.0\.1 is not a public/),
  });
  expect(await check({ ALERT_URL: 'http://10.0.0.1/', ALERT_PRIVATE_NETWORKS: 'allow' })).toMatchObject({
    state: 'ok',
  });

  const id = randomUUID();
  const runFor = (text: string) => sql(text, id);
  await runFor(`insert into alerts (id, condition, subject_id, subject_name, since, began_at, value, checked_at)
             values ($1, 'spool', 'x', 'x', now(), now(), 1, now())`);
  await runFor(`insert into alert_requests (id, alert_id, type, body, created_at, next_attempt_at, last_attempt_at, last_error)
             values ($1, $1, 'alert.began', '{}', now(), now(), now(), '8.8.8.8 answered 500')`);
  expect(await check()).toMatchObject({
    state: 'problem',
    finding: 'the latest request to 8.8.8.8 failed: 8.8.8.8 answered 500',
  });
  await runFor(`update alert_requests set state = 'sent', last_error = null where id = $1`);
  expect(await check()).toMatchObject({ state: 'ok' });
});
