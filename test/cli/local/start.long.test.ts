/** What `weir start` refuses: one sentence on stderr that names the setting, exit code 1, and no process left. */
import { rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { lockDataDir } from '../../../server/base/files/data-dir.ts';
import { migrationFiles } from '../../../server/store/migrate.ts';
import { recordKeys } from '../../../server/store/secrets/keys.ts';
import { fingerprintOf } from '../../../server/store/secrets/seal.ts';
import type { Overrides } from '../../helpers/app.ts';
import { PASSWORD, request } from '../../helpers/people.ts';
import { freePort, listening } from '../../helpers/ports.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { isListening, processesOf } from '../../helpers/processes.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { someKey } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made, newWebhook, webhooksOf } from '../../helpers/webhooks.ts';
import { ask, makeDataDir, spawnWeir, startWeir, type Weir } from '../../helpers/weir.ts';

let dataDir: string;
const database = shared(freshDatabase);

beforeAll(async () => {
  dataDir = await makeDataDir();
});
afterAll(() => rm(dataDir, { recursive: true, force: true }));

/** A port that another server uses until the test ends. */
const takenPort = () => listening(createServer());

const newer = migrationFiles().at(-1)!.version + 1;

type Case = [what: string, prepare: () => Promise<Overrides> | Overrides, says: RegExp];

const refusals: Case[] = [
  [
    'a port that is in use',
    async () => ({ PORT: await takenPort() }),
    /^weir: PORT \d+ on 127\.0\.0\.1 is in use by another program; stop it or set PORT$/,
  ],
  [
    'a metrics port that is in use',
    async () => ({ METRICS_PORT: await takenPort() }),
    /^weir: METRICS_PORT \d+ on 127\.0\.0\.1 is in use by another program; stop it or set METRICS_PORT$/,
  ],
  [
    'an address of another machine',
    () => ({ HOST: '203.0.113.1' }),
    /^weir: HOST 203\.0\.113\.1 cannot be listened on/,
  ],
  [
    'a setting that is out of range',
    () => ({ WORKERS: 0 }),
    /^weir: WORKERS is "0"; allowed: a whole number from 1 to 1024$/,
  ],
  [
    'a bad SECRETS_KEY, without showing it',
    () => ({ SECRETS_KEY: 'c2VzYW1l' }),
    /^weir: SECRETS_KEY is not usable; allowed: 32 bytes in base64 \(openssl rand -base64 32\)$/,
  ],
  [
    'an ARCHIVE_DIR that does not exist',
    () => ({ ARCHIVE_DIR: join(dataDir, 'missing') }),
    /^weir: ARCHIVE_DIR .*missing cannot be written \(ENOENT.*\); create the directory, owned by .*, or unset ARCHIVE_DIR$/,
  ],
  [
    'an ARCHIVE_DIR that is a file',
    () => ({ ARCHIVE_DIR: fileURLToPath(import.meta.url) }),
    /^weir: ARCHIVE_DIR .* cannot be written \(ENOTDIR/,
  ],
  [
    'a DATA_DIR that is a file',
    () => ({ DATA_DIR: fileURLToPath(import.meta.url) }),
    /^weir: DATA_DIR .* cannot be created: .* is not a directory$/,
  ],
  [
    'a DATA_DIR that cannot be created',
    () => ({ DATA_DIR: '/proc/none/data' }),
    /^weir: DATA_DIR \/proc\/none\/data cannot be created: ENOENT/,
  ],
  [
    'a DATA_DIR that is a file, and no key',
    () => ({ DATA_DIR: fileURLToPath(import.meta.url), DATABASE_URL: '', SECRETS_KEY: '' }),
    /^weir: .*secrets\.key cannot be written \(.* is not a directory\); set DATA_DIR to a directory of yours$/,
  ],
  [
    'a DATA_DIR that another Weir serves from',
    async () => {
      const lock = await lockDataDir(dataDir);
      onTestFinished(() => lock.release());
      return {};
    },
    /^weir: Another Weir is running with DATA_DIR .*; stop it first, or set another DATA_DIR and PORT$/,
  ],
  [
    'a database that the server does not have, without showing the password',
    () => ({ DATABASE_URL: `${database.conninfo} dbname=missing password=sesame` }),
    /^weir: the database at (?!.*sesame).* cannot be used: .*; check DATABASE_URL or the POSTGRES_\* settings$/s,
  ],
  [
    'more processes than the database has connections for',
    () => ({ WORKERS: 200 }),
    /^weir: .*connections.*(WORKERS|DB_POOL_MAX)/,
  ],
  [
    'a database of a newer release',
    async () => {
      const table = 'schema_migrations';
      await database.sql(`insert into ${table} (version, name) values (${newer}, 'newer')`);
      onTestFinished(async () => {
        await database.sql(`delete from ${table} where version = ${newer}`);
      });
      return {};
    },
    new RegExp(`^weir: the database at .* is at schema version ${newer}, newer than this release`),
  ],
  [
    'a key that opens none of the stored secrets, also if Weir was started with it before the first of them',
    async () => {
      const webhooks = webhooksOf(database, [Buffer.alloc(32, 9).toString('base64')]);
      const { id } = made(await webhooks.add(newWebhook({ secret: 'sesame' })));
      onTestFinished(async () => void (await webhooks.remove(id)));
      // As recorded by a start before the first webhook.
      const given = Buffer.alloc(32, 6).toString('base64');
      await database.database.transaction((query) => recordKeys(query, fingerprintOf(given), null, { again: false }));
      return { SECRETS_KEY: given };
    },
    /^weir: SECRETS_KEY opens none of the stored webhook secrets \(1\); give the key .* as SECRETS_KEY_PREVIOUS beside a new one.* lost for good, run: npx --no weir keys rotate, start Weir, .* npx --no weir webhook rotate ID$/,
  ],
  [
    'a rate-limit store that is not there',
    async () => ({
      RATE_LIMIT_BACKEND: 'shared',
      RATE_LIMIT_SHARED_URL: `redis://someone:sesame@127.0.0.1:${await freePort()}`,
      RATE_LIMIT_WAIT_SECONDS: 0,
    }),
    /^weir: RATE_LIMIT_SHARED_URL (?!.*(sesame|someone)).* cannot be used: .*ECONNREFUSED.*RATE_LIMIT_BACKEND=memory$/,
  ],
];

test.each(refusals)('weir start is refused: %s', async (_what, prepare, says) => {
  const ports = { PORT: await freePort(), METRICS_PORT: await freePort() };
  const given = { WORKERS: 1, DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, ...ports, ...(await prepare()) };
  const weir = spawnWeir({ DATA_DIR: dataDir, ...given });
  expect(await weir.ended).toBe(1);
  expect(weir.stderr().trimEnd()).toMatch(says);
  expect(weir.stderr().trimEnd().split('\n')).toHaveLength(1);
  // The log so far is valid: every line is JSON, and none reports that Weir listens.
  expect(weir.events('listening')).toEqual([]);
  // The lock of the test has the directory as an argument, not as a part of one.
  await until(async () => (await processesOf(dataDir)).length === 0);
});

test('after the loss of the key, Weir starts with a new one, and each webhook gets a new secret', async () => {
  const webhooks = webhooksOf(database, [Buffer.alloc(32, 9).toString('base64')]);
  const { id } = made(await webhooks.add(newWebhook({ secret: 'sesame' })));
  onTestFinished(async () => void (await webhooks.remove(id)));
  const key = { DATABASE_URL: database.conninfo, SECRETS_KEY: Buffer.alloc(32, 8).toString('base64') };
  const rotate = spawnWeir({ ...key, DATA_DIR: dataDir }, { command: ['keys', 'rotate'] });
  expect(await rotate.ended).toBe(1);
  expect(rotate.stderr()).toContain('Webhook secrets that no configured key can decrypt: 1.');
  const weir = await ofTest(startWeir(key));
  const send = async (secret: string) =>
    (await fetch(`http://127.0.0.1:${weir.port}/in/${id}`, signedRequest({ secret, body: '{}' }))).status;
  expect(await send('sesame')).toBe(503);
  const given = spawnWeir(
    { ...key, DATA_DIR: weir.dataDir },
    { command: ['webhook', 'rotate', id, '--secret', 'new sesame'] },
  );
  expect([await given.ended, given.stderr()]).toEqual([0, '']);
  expect(await send('new sesame')).toBe(202);
});

test('every line of output from start to end is JSON', async () => {
  const weir = await startWeir({ DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, LOG_LEVEL: 'trace' });
  expect((await ask(weir.port, '/readyz')).status).toBe(200);
  await weir.stop();
  expect(await weir.ended).toBe(0);
  expect(weir.stderr()).toBe('');
  const events = weir.lines.map((line) => (JSON.parse(line) as { event: string; pid: number }).event);
  // From the primary and from its processes.
  expect(events).toEqual(expect.arrayContaining(['starting', 'database_up', 'listening', 'request', 'stopped']));
  expect(events.at(-1)).toBe('stopped');
  expect(await isListening(weir.port)).toBe(false);
});

describe('the first administrator', () => {
  const EMAIL = 'ada@example.org';
  const start = (settings: Overrides = {}) =>
    startWeir({ DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, ...settings });
  const post = ({ port }: Weir, path: string, body: object) =>
    request(`http://127.0.0.1:${port}${path}`, 'POST', body, {});
  afterEach(() => database.sql('delete from users'));

  test('is created at the setup URL, which is logged until it is used', async () => {
    const weir = await start();
    try {
      const address = await until(() => weir.events('setup_address')[0]?.url as string | undefined);
      const token = new URL(address).searchParams.get('token')!;
      expect(address).toBe(`http://127.0.0.1:${weir.port}/setup?token=${token}`);
      expect((await post(weir, '/api/v1/setup', { token, email: EMAIL, password: PASSWORD })).status).toBe(201);
      expect((await post(weir, '/api/v1/setup', { token, email: EMAIL, password: PASSWORD })).status).toBe(404);
    } finally {
      await weir.stop();
    }
    const again = await start();
    await again.stop();
    expect(again.events('setup_address')).toEqual([]);
  });

  test('is created from the settings, without a setup URL', async () => {
    const weir = await start({ ADMIN_EMAIL: EMAIL, ADMIN_PASSWORD: PASSWORD });
    try {
      const { status, body } = await post(weir, '/api/v1/session', { email: EMAIL, password: PASSWORD });
      expect([status, body.user.role]).toEqual([200, 'administrator']);
    } finally {
      await weir.stop();
    }
    expect(weir.events('setup_address')).toEqual([]);
    expect(weir.lines.join('')).not.toContain(PASSWORD);
  });
});
