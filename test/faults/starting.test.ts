/** A start that waits for another migration, for Redis or for its port: it says what it waits for, and ends at once when it is stopped. */
import { once } from 'node:events';
import { createServer } from 'node:net';
import { afterEach, expect, onTestFinished, test } from 'vitest';
import { advisoryLocks } from '../../server/store/advisory-locks.ts';
import { openDatabase } from '../../server/store/connect/pool.ts';
import { freePort, listening } from '../helpers/ports.ts';
import { emptyDatabase } from '../helpers/postgres.ts';
import { childrenOf, look } from '../helpers/processes.ts';
import { startRedis } from '../helpers/redis.ts';
import { someKey } from '../helpers/settings.ts';
import { ofEach } from '../helpers/shared.ts';
import { PATIENCE_MS, until } from '../helpers/wait.ts';
import { ask, kill, readiness, spawnWeir } from '../helpers/weir.ts';

const eventually = { timeoutMs: 2 * PATIENCE_MS };

const fresh = ofEach(emptyDatabase);
/** Holds the lock of migrations. */
const other = ofEach(async () => openDatabase(fresh.conninfo, { connectionsMax: 1, applicationName: 'other' }));
let weir: ReturnType<typeof spawnWeir>;
let port: number;

afterEach(async () => {
  weir.child.kill('SIGTERM');
  await weir.ended;
});

async function start(settings: Record<string, string | number> = {}, at?: number): Promise<void> {
  port = at ?? (await freePort());
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

test('a start that is refused ends, whatever else it waits for', async () => {
  const METRICS_PORT = await listening(createServer());
  await whileMigrating(async () => {
    await start({ METRICS_PORT });
    expect(await weir.ended).toBe(1);
    expect(weir.stderr()).toContain(`METRICS_PORT ${METRICS_PORT}`);
  });
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

/** Stops the serving process with STOP and kills the primary: the process holds the port and does not notice. Returns its pid. */
async function orphan(): Promise<number> {
  await start();
  await until(isReady, eventually);
  const pid = (await childrenOf(weir.pid))[0]!;
  kill(pid, 'SIGSTOP');
  onTestFinished(() => kill(pid, 'SIGKILL'));
  kill(weir.pid, 'SIGKILL');
  await weir.ended;
  return pid;
}

test('a start just after kill -9 of the primary waits until its processes have ended', async () => {
  const pid = await orphan();
  // Longer than the process takes to end on a busy machine.
  await start({ DRAIN_SECONDS: 120 }, port);
  const awaited = await until(() => weir.events('orphans_awaited')[0], eventually);
  expect(awaited.processes).toContain(pid);
  expect(weir.events('starting')).toEqual([]);
  kill(pid, 'SIGCONT');
  await until(async () => weir.child.exitCode !== null || (await isReady()), eventually);
  expect(weir.stderr()).toBe('');
  expect(await look(pid)).toBeNull();
  expect(weir.events('orphans_awaited')).toHaveLength(1);
});

test('a start whose port is held by a process of a killed primary names it after DRAIN_SECONDS, and one that is stopped ends', async () => {
  const pid = await orphan();
  await start({ DRAIN_SECONDS: 3_600 }, port);
  await until(() => weir.events('orphans_awaited').length === 1, eventually);
  weir.child.kill('SIGTERM');
  expect(await weir.ended).toBe(0);

  await start({ DRAIN_SECONDS: 1 }, port);
  expect(await weir.ended).toBe(1);
  expect(weir.stderr()).toMatch(
    new RegExp(`PORT ${port} on .* is still in use after 1 s \\(DRAIN_SECONDS\\).*kill -9 (\\d+ )*${pid}\\b`, 's'),
  );
});

test('a start whose port another program has is refused at once', async () => {
  port = await freePort();
  const server = createServer().listen(port, '127.0.0.1');
  onTestFinished(() => void server.close());
  await once(server, 'listening');
  await start({ DRAIN_SECONDS: 3_600 }, port);
  expect(await weir.ended).toBe(1);
  expect(weir.stderr()).toContain(`PORT ${port} on 127.0.0.1 is in use by another program`);
});
