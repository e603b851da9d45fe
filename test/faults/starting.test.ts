/** A start that waits for another migration or for Redis: it listens, says what it waits for, and ends at once when it is stopped. */
import { afterEach, beforeEach, expect, test } from 'vitest';
import { advisoryLocks } from '../../server/store/advisory-locks.ts';
import { type Database, openDatabase } from '../../server/store/connect/pool.ts';
import { freePort } from '../helpers/ports.ts';
import { emptyDatabase, type FreshDatabase } from '../helpers/postgres.ts';
import { startRedis } from '../helpers/redis.ts';
import { someKey } from '../helpers/settings.ts';
import { PATIENCE_MS, until } from '../helpers/wait.ts';
import { ask, readiness, spawnWeir } from '../helpers/weir.ts';

const eventually = { timeoutMs: 2 * PATIENCE_MS };

let fresh: FreshDatabase;
/** Holds the lock of migrations. */
let other: Database;
let weir: ReturnType<typeof spawnWeir>;
let port: number;

beforeEach(async () => {
  fresh = await emptyDatabase();
  other = openDatabase(fresh.conninfo, { connectionsMax: 1, applicationName: 'other' });
});
afterEach(async () => {
  weir.child.kill('SIGTERM');
  await weir.ended;
  await other.close();
  await fresh.drop();
});

async function start(settings: Record<string, string | number> = {}): Promise<void> {
  port = await freePort();
  const given = { DATABASE_URL: fresh.conninfo, SECRETS_KEY: someKey, PORT: port, METRICS_PORT: await freePort() };
  weir = spawnWeir({ ...given, WORKERS: 1, ...settings });
}

const isAlive = () =>
  ask(port, '/healthz').then(
    ({ status }) => status === 200,
    () => false,
  );
const isReady = async () => (await readiness(port))?.status === 200;

/** Runs `work` while another Weir migrates. */
function whileMigrating(work: () => Promise<void>): Promise<void> {
  return other.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.schema] });
    await work();
  });
}

test('during a migration Weir is alive and not ready, and serves when it is over', async () => {
  await whileMigrating(async () => {
    await start();
    await until(isAlive, eventually);
    await until(async () => (await readiness(port))?.checks.migrations === 'migrating', eventually);
    expect((await readiness(port))!.status).toBe(503);
    expect(weir.events('listening')).toEqual([]);
  });
  await until(isReady, eventually);
  await until(() => weir.events('listening').length > 0, eventually);
});

test('TERM during a migration ends Weir without waiting for it', async () => {
  await whileMigrating(async () => {
    await start();
    await until(isAlive, eventually);
    weir.child.kill('SIGTERM');
    expect(await weir.ended).toBe(0);
  });
});

test('a start without Redis waits for it', async () => {
  const redisPort = await freePort();
  await start({
    RATE_LIMIT_BACKEND: 'shared',
    RATE_LIMIT_SHARED_URL: `redis://127.0.0.1:${redisPort}`,
    RATE_LIMIT_WAIT_SECONDS: 3_600,
  });
  await until(isAlive, eventually);
  await until(async () => (await readiness(port))?.checks.rate_limit_store === 'failing', eventually);
  expect((await readiness(port))!.status).toBe(503);
  expect(weir.events('rate_limit_store_awaited')).toHaveLength(1);
  const redis = await startRedis({ port: redisPort });
  try {
    await until(isReady, eventually);
  } finally {
    await redis.stop();
  }
});

test('a start that requires Redis is refused after RATE_LIMIT_WAIT_SECONDS', async () => {
  await start({
    RATE_LIMIT_BACKEND: 'shared',
    RATE_LIMIT_SHARED_URL: `redis://127.0.0.1:${await freePort()}`,
    RATE_LIMIT_WAIT_SECONDS: 0,
  });
  expect(await weir.ended).toBe(1);
  expect(weir.stderr()).toContain('RATE_LIMIT_SHARED_URL (or RQ_SHARED_URL): the store at 127.0.0.1:');
});

test('a start that does not require Redis serves without it', async () => {
  await start({
    RATE_LIMIT_BACKEND: 'shared',
    RATE_LIMIT_SHARED_URL: `redis://127.0.0.1:${await freePort()}`,
    RATE_LIMIT_REQUIRED: 'false',
    RATE_LIMIT_WAIT_SECONDS: 3_600,
  });
  await until(isReady, eventually);
  expect(await readiness(port)).toMatchObject({ checks: { rate_limit_store: 'degraded' } });
});
