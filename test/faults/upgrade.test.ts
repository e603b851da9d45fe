/** HUP to other settings and another build: new processes use them, and with incompatible ones the old processes continue to serve. */
import { mkdtemp, rename, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { type Installation, installWeir } from '../helpers/installation.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { signedRequest } from '../helpers/requests.ts';
import { missing, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';
import { made, webhooksOf } from '../helpers/webhooks.ts';
import { ask, PATIENCE_MS, readiness, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 180_000;
const eventually = { timeoutMs: PATIENCE_MS };

/** `releases/one` and `releases/two`, and the link `current` to one of them, with `.env` beside it. */
let directory: string;
let one: Installation;
let two: Installation;
let database: FreshDatabase;
let weir: Weir;
let webhook: { path: string; secret: string };

const configure = (...lines: string[]) => writeFile(join(directory, '.env'), `${['WORKERS=2', ...lines].join('\n')}\n`);

async function release(name: 'one' | 'two'): Promise<void> {
  await symlink(join('releases', name), join(directory, 'next'));
  await rename(join(directory, 'next'), join(directory, 'current'));
}

/** What a client sees of a build. */
const says = (word: string) => (built: string) => built.replace('status: "ok" }', `status: "${word}" }`);

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'weir-u-'));
  one = await installWeir(join(directory, 'releases/one'));
  two = await installWeir(join(directory, 'releases/two'));
  await two.replace('server/http/health.ts', says('new'));
  await release('one');
  await configure();
  database = await freshDatabase();
  weir = await startWeir(
    { DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, WORKERS: '' },
    { entry: join(directory, 'current/dist/server/cli/weir.js'), directory },
  );
  webhook = await weir.addWebhook();
}, TEST_MS);
afterAll(async () => {
  await weir.stop();
  await database.drop();
  await rm(directory, { recursive: true });
}, TEST_MS);
beforeEach(() => configure());

/** Sends HUP; returns the final log line of the restart. */
async function restart(): Promise<Record<string, unknown>> {
  const ends = () => [...weir.events('restarted'), ...weir.events('restart_failed')];
  const known = ends();
  weir.signal('SIGHUP');
  return until(() => ends().find(({ time }) => known.every((end) => end.time !== time)), eventually);
}

/** Responses of the processes; each request goes to any of them. */
async function statusesOf(): Promise<string[]> {
  const answers = await Promise.all(Array.from({ length: 20 }, () => ask(weir.port, '/healthz')));
  return [...new Set(answers.map(({ body }) => (JSON.parse(body) as { status: string }).status))];
}

const post = (body: string) =>
  fetch(`http://127.0.0.1:${weir.port}${webhook.path}`, signedRequest({ secret: webhook.secret, body }));

/** Resolves after the primary has reached the database (every 300 ms) and informed its processes. */
async function heartbeat(): Promise<void> {
  const text = `select query_start::text as at from pg_stat_activity
    where application_name = 'weir-listener' and datname = current_database()`;
  const read = async () => (await database.database.query<{ at: string }>({ text }))[0]?.at;
  for (let i = 0; i < 2; i++) {
    const before = await read();
    await until(async () => (await read()) !== before, eventually);
  }
}

describe('settings', () => {
  test('changed in .env apply to new processes', { timeout: TEST_MS }, async () => {
    expect((await post('x'.repeat(11))).status).toBe(202);
    await configure('WEBHOOK_MAX_PAYLOAD_BYTES=10', 'LOG_LEVEL=debug');
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 2 });
    expect(weir.events('settings_changed').at(-1)!.settings).toEqual(['WEBHOOK_MAX_PAYLOAD_BYTES', 'LOG_LEVEL']);
    const statuses = await Promise.all(Array.from({ length: 10 }, async () => (await post('x'.repeat(11))).status));
    expect(new Set(statuses)).toEqual(new Set([413]));
  });

  test('WORKERS sets the number of processes; TTIN is kept while WORKERS does not change', {
    timeout: TEST_MS,
  }, async () => {
    weir.signal('SIGTTIN');
    await until(async () => (await weir.metric('weir_processes')) === 3, eventually);
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 3 });
    await configure('WORKERS=1');
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 1 });
    expect(await weir.servingPids()).toHaveLength(1);
    await configure('WORKERS=2');
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 2 });
    expect(await weir.servingPids()).toHaveLength(2);
  });

  test.each([
    ['a bad value', ['THREADS=many'], 'THREADS is "many"; allowed: a whole number from 1 to 64'],
    [
      'settings of the primary',
      ['HOST=0.0.0.0', 'METRICS_HOST=0.0.0.0', 'THREADS=2'],
      'HOST, METRICS_HOST have changed, which needs a restart of Weir; stop and start it, or set the earlier value and send HUP again',
    ],
    [
      'more connections than the database allows',
      ['DB_POOL_MAX=1000'],
      expect.stringMatching(/^the database allows \d+ connections, but WORKERS=2 and DB_POOL_MAX=1000 may open \d+;/),
    ],
  ])('%s: refused by name, and the old processes continue to serve', { timeout: TEST_MS }, async (_, lines, reason) => {
    const before = await weir.servingPids();
    await configure(...lines);
    expect(await restart()).toMatchObject({ event: 'restart_failed', reason, replaced: 0 });
    expect(await weir.servingPids()).toEqual(before);
  });
});

test('a webhook changed while a process starts is current in that process', { timeout: TEST_MS }, async () => {
  await configure('WORKERS=1');
  const { path, secret } = await weir.addWebhook();
  // Its caches are filled and it listens, but it has not reported that yet.
  await one.replace('server/process/app.ts', (built) =>
    built.replace(
      /^\treturn \{$/m,
      "console.log('filled'); await new Promise((go) => setTimeout(go, 1_000)); return {",
    ),
  );
  const restarted = restart();
  await until(() => weir.events('process_output').some(({ line }) => line === 'filled'), eventually);
  const id = path.split('/').at(-1)!;
  made(await webhooksOf({ ...weir, conninfo: database.conninfo }, [someKey]).update(id, { enabled: false }));
  expect(await restarted).toMatchObject({ event: 'restarted', replaced: 1 });
  await one.repair();
  // The process trusts its caches after the next heartbeat of the database.
  await heartbeat();
  const answer = await fetch(`http://127.0.0.1:${weir.port}${path}`, signedRequest({ secret }));
  expect(answer.status).toBe(410);
});

describe('another build', () => {
  test('on disk keeps running processes ready before weir migrate', { timeout: TEST_MS }, async () => {
    const file = join(one.directory, 'dist/server/db/migrations/9999_later.sql');
    await writeFile(file, 'select 1;');
    expect(await readiness(weir.port)).toMatchObject({ status: 200, checks: { migrations: 'ok' } });
    await rm(file);
  });

  test('is served after HUP without a failed request', { timeout: TEST_MS }, async () => {
    expect(await statusesOf()).toEqual(['ok']);
    const before = await weir.servingPids();
    const sender = startSender({ port: weir.port, ...webhook });
    await sender.acceptMore(300);
    await release('two');
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 2 });
    await sender.acceptMore(300);
    await sender.stop();
    expect(await statusesOf()).toEqual(['new']);
    expect((await weir.servingPids()).filter((pid) => before.includes(pid))).toEqual([]);
    expect(sender.refusals).toEqual([]);
    expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
    expect(await missing(weir.database, sender.accepted)).toEqual([]);
  });

  test('can have settings that the running primary does not know', { timeout: TEST_MS }, async () => {
    // The bundler renames one of two functions with the same name.
    const rows = (built: string) =>
      built.replace(/limitsSettings = \{(?=[\s\S]*?\b(count(?:\$\d+)?)\()/, "$&\n    NEW_LIMIT: $1(5, 1, 9, ''),");
    await two.replace('server/settings/rows/limits.ts', rows);
    await two.replace('server/process/app.ts', (built) =>
      built.replace(
        'const { settings } = order;',
        '$&\n    if (settings.NEW_LIMIT !== 7) throw new Error(settings.NEW_LIMIT);',
      ),
    );
    expect(await restart()).toMatchObject({ event: 'restart_failed', reason: '5' });
    await configure('NEW_LIMIT=70');
    expect(await restart()).toMatchObject({
      event: 'restart_failed',
      reason: 'NEW_LIMIT is "70"; allowed: a whole number from 1 to 9',
    });
    await configure('NEW_LIMIT=7');
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 2 });
    await two.repair();
  });

  test('with a migration is refused before weir migrate', { timeout: TEST_MS }, async () => {
    await two.replace('server/db/migrate.ts', (built) =>
      built.replace(
        'return readdirSync(builtFile(MIGRATIONS))',
        "return [...readdirSync(builtFile(MIGRATIONS)), '9999_later.sql']",
      ),
    );
    expect(await restart()).toMatchObject({
      event: 'restart_failed',
      reason:
        'the database lacks migration 9999_later.sql of this build; run: npx --no weir migrate, then send HUP again',
      kept: 2,
    });
    await database.database.query({ text: `insert into schema_migrations (version, name) values (9999, 'later')` });
    expect(await restart()).toMatchObject({ event: 'restarted', replaced: 2 });
    await database.database.query({ text: 'delete from schema_migrations where version = 9999' });
    await two.repair();
  });

  test('with other messages is refused', { timeout: TEST_MS }, async () => {
    await two.replace('server/process/process.ts', (built) => built.replace(/protocol: \d+/, 'protocol: 99'));
    expect(await restart()).toMatchObject({
      event: 'restart_failed',
      reason: expect.stringMatching(/^the build on disk cannot run under this primary \(protocol 99, here \d+\);/),
      kept: 2,
    });
    await two.repair();
  });
});
