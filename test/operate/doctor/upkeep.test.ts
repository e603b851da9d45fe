/** Faults of a separate real Postgres with changed settings. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { readSettings } from '../../../server/base/settings/read.ts';
import { checkConnections } from '../../../server/operate/doctor/connections.ts';
import { checkDatabase } from '../../../server/operate/doctor/database.ts';
import { checkAutovacuum, checkClock, checkJobs } from '../../../server/operate/doctor/upkeep.ts';
import { openDatabase } from '../../../server/store/connect/pool.ts';
import { connectionsNeeded, type OpenedDatabase, openMigrated } from '../../../server/store/open.ts';
import { someKey } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';

let dataDir: string;
let attached: OpenedDatabase;
beforeAll(async () => {
  dataDir = await mkdtemp(join(tmpdir(), 'weir-upkeep-'));
  await chmod(dataDir, 0o711);
  const settings = readSettings({ DATA_DIR: dataDir, WORKERS: '1', DB_POOL_MAX: '4' }, dataDir);
  attached = await openMigrated(settings, () => {}, { joinSmaller: false });
});
afterAll(async () => {
  await attached.detach();
  await rm(dataDir, { recursive: true, force: true });
});

const run = (text: string) => attached.database.query<{ value: string }>({ text });
const asServer = () =>
  readSettings({ DATABASE_URL: attached.conninfo, SECRETS_KEY: someKey, WORKERS: '1', DB_POOL_MAX: '4' }, dataDir);

test('the doctor reports the oldest unfinished job when it makes no progress', async () => {
  const add = (minutes: number) =>
    run(`insert into jobs (id, kind, filter, until, created_by, created_at, updated_at)
      select gen_random_uuid(), 'replay_events', '{}', now(), '{}', t, t from (select now() - interval '${minutes} minutes' as t) at`);
  expect(await checkJobs(attached.database)).toEqual([]);
  await add(4);
  expect(await checkJobs(attached.database)).toEqual([]);
  await add(12);
  expect(await checkJobs(attached.database)).toMatchObject([
    { name: 'jobs', state: 'advice', finding: expect.stringMatching(/^job \S+ has made no progress for 12 minutes$/) },
  ]);
  await run('delete from jobs');
});

describe('the doctor checks autovacuum', () => {
  test('that is on', async () => {
    expect(await checkAutovacuum(attached.database)).toMatchObject({ state: 'ok' });
  });

  test.each(['autovacuum', 'track_counts'])('with %s off on the server', async (setting) => {
    await alterSystem(setting, 'off');
    const check = await checkAutovacuum(attached.database);
    await alterSystem(setting, 'on');
    expect(check).toMatchObject({ state: 'problem', finding: expect.stringContaining(`${setting} is off`) });
    expect(check.fix).toContain(`alter system set ${setting} = on;`);
  });

  test.each(['autovacuum_enabled', 'toast.autovacuum_enabled'])('that %s turns off for a table', async (option) => {
    await run(`alter table webhooks set (${option} = false)`);
    const check = await checkAutovacuum(attached.database);
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
    const check = await checkClock(attached.database, () => Date.now() + differenceMs);
    expect([check.state, check.finding]).toEqual([state, expect.stringMatching(finding)]);
  });

  test('and does not report a slow response as a clock error', async () => {
    const times = [Date.now() - 60_000, Date.now() + 60_000];
    expect((await checkClock(attached.database, () => times.shift()!)).state).toBe('ok');
  });
});

describe('the doctor counts the connections of a server', () => {
  test('that has enough: those of Weir itself are not counted as others', async () => {
    await Promise.all([run('select pg_sleep(0.1)'), run('select pg_sleep(0.1)')]);
    expect(await checkConnections(attached.database, asServer())).toMatchObject({
      state: 'ok',
      finding: expect.stringMatching(/^Weir opens up to 32; the server allows 32, and other clients use 0$/),
    });
  });

  test('that has too few because another client holds one', async () => {
    const other = openDatabase(`${attached.conninfo} application_name=psql`, {
      connectionsMax: 1,
      applicationName: 'unused',
    });
    onTestFinished(() => other.close());
    await other.query({ text: 'select 1' });
    const needed = connectionsNeeded(asServer());
    const check = await checkConnections(attached.database, asServer());
    expect(check).toMatchObject({
      state: 'problem',
      finding: `other clients use 1 of the ${needed} connections that the server allows: ${needed - 1} are left, and Weir opens up to ${needed}`,
    });
    expect(check.fix).toContain(`raise max_connections to ${needed + 4} or more`);
  });
});

test('on a server database the doctor reports all of this, and its size', async () => {
  const checks = await checkDatabase({
    settings: asServer(),
    keys: [someKey],
    running: false,
    nowMs: () => Date.now() + 60_000,
    log: () => {},
  });
  expect(checks.slice(0, 7).map(({ name, state }) => `${name} ${state}`)).toEqual([
    'database ok',
    'connections ok',
    'database_size ok',
    'durability ok',
    'wal ok',
    'autovacuum ok',
    'clock problem',
  ]);
  expect(checks[2]!.finding).toMatch(/^0\.0 GiB; .*cannot see the free space/);
});
