/** Restarts that overlap, fail or are interrupted end with the configured number of processes, and old processes serve until new ones do. */
import { mkdtemp, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { afterAll, beforeAll, beforeEach, expect, test } from 'vitest';
import { type Installation, installWeir } from '../helpers/installation.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';
import { isListening, processesOf } from '../helpers/processes.ts';
import { missing, type Sender, startSender } from '../helpers/sender.ts';
import { someKey } from '../helpers/settings.ts';
import { until } from '../helpers/wait.ts';
import { ask, kill, PATIENCE_MS, startWeir, type Weir } from '../helpers/weir.ts';

const TEST_MS = 180_000;
const eventually = { timeoutMs: PATIENCE_MS };
const WORKERS = 2;
const LOOK_EVERY_MS = 10;
const hang = (built: string) =>
  built.replace('async function startApp(', '$&) { return new Promise(() => {}); }\nasync function replaced(');
const exitAtOnce = (built: string) => `${built}\nprocess.exit(7);`;

let directory: string;
let installation: Installation;
let database: FreshDatabase;
let weir: Weir;
let webhook: { path: string; secret: string };

const configure = (...lines: string[]) =>
  writeFile(join(directory, '.env'), `${[`WORKERS=${WORKERS}`, ...lines].join('\n')}\n`);

async function start(): Promise<void> {
  weir = await startWeir(
    // A test that waited for these would not end.
    { DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, WORKERS: '', DRAIN_SECONDS: 600 },
    { entry: installation.entry, directory },
  );
  webhook = await weir.addWebhook();
}

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'weir-e-'));
  installation = await installWeir();
  database = await freshDatabase();
  await configure();
  await start();
}, TEST_MS);
afterAll(async () => {
  await weir.stop();
  await database.drop();
  await installation.remove();
  await rm(directory, { recursive: true });
}, TEST_MS);
beforeEach(async () => {
  await configure();
  await until(async () => (await weir.metric('weir_processes')) === WORKERS, eventually);
});

/** Number of restarts that have succeeded or failed. */
const ends = () => weir.events('restarted').length + weir.events('restart_failed').length;

/** Sends HUP; returns the final log line of the restart. */
async function restart(): Promise<Record<string, unknown>> {
  const before = ends();
  weir.signal('SIGHUP');
  await until(() => ends() > before, eventually);
  return [...weir.events('restarted'), ...weir.events('restart_failed')]
    .sort((a, b) => (a.time! < b.time! ? -1 : 1))
    .at(-1)!;
}

/** Every restart that began has ended, and none follows. */
const quiet = () => until(() => weir.events('restarting').length === ends(), eventually);

/** One at a time: pending signals of one kind are delivered as one. */
async function scale(signal: 'SIGTTIN' | 'SIGTTOU', times = 1): Promise<void> {
  for (let i = 0; i < times; i++) {
    const reported = weir.events('processes_changed').length;
    weir.signal(signal);
    await until(() => weir.events('processes_changed').length > reported, eventually);
  }
}

/** The largest number of processes seen from now on; `stop` ends the watch. */
function watchProcesses() {
  let most = 0;
  let watching = true;
  const watch = (async () => {
    while (watching) {
      most = Math.max(most, (await weir.servingPids()).length);
      await delay(LOOK_EVERY_MS);
    }
  })();
  return {
    stop: async () => {
      watching = false;
      await watch;
      return most;
    },
  };
}

async function expectNothingBroken(sender: Sender): Promise<void> {
  await sender.stop();
  expect(sender.refusals).toEqual([]);
  expect(sender.losses.filter(({ reused }) => reused)).toEqual([]);
  expect(await missing(weir.database, sender.accepted)).toEqual([]);
}

test('a HUP during a restart starts one more restart after it', { timeout: TEST_MS }, async () => {
  const before = await weir.servingPids();
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(100);
  const watch = watchProcesses();
  weir.signal('SIGHUP');
  await until(async () => (await weir.servingPids()).length > WORKERS, eventually);
  weir.signal('SIGHUP');
  await until(() => ends() === 2, eventually);
  await quiet();
  const after = await weir.servingPids();
  expect(after).toHaveLength(WORKERS);
  expect(after.filter((pid) => before.includes(pid))).toEqual([]);
  expect(weir.events('restarted')).toMatchObject([{ replaced: WORKERS }, { replaced: WORKERS }]);
  expect(await watch.stop()).toBe(WORKERS + 1);
  await sender.acceptMore(100);
  await expectNothingBroken(sender);
});

test('20 HUPs with TTIN and TTOU cause few restarts and the correct number of processes', {
  timeout: TEST_MS,
}, async () => {
  const before = ends();
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(100);
  for (let i = 0; i < 20; i++) {
    weir.signal('SIGHUP');
    if (i % 5 > 2) await scale(i % 5 === 3 ? 'SIGTTIN' : 'SIGTTOU');
  }
  await until(() => ends() > before, eventually);
  await quiet();
  await until(async () => (await weir.servingPids()).length === WORKERS, eventually);
  // At most one restart for each wait of the test, and one more.
  expect(ends() - before).toBeLessThan(10);
  expect(weir.events('restart_failed')).toEqual([]);
  await sender.acceptMore(100);
  await expectNothingBroken(sender);
});

test('kill -9 of old and new processes during a restart', { timeout: TEST_MS }, async () => {
  const before = await weir.servingPids();
  const known = ends();
  weir.signal('SIGHUP');
  await until(async () => (await weir.servingPids()).length > WORKERS, eventually);
  kill(before[1]!, 'SIGKILL');
  await until(() => ends() > known, eventually);
  expect(weir.events('restart_failed')).toEqual([]);
  const first = await weir.servingPids();
  expect(first).toHaveLength(WORKERS);
  expect(first.filter((pid) => before.includes(pid))).toEqual([]);

  // The third process is the new one: without it the restart has failed, and the two old ones remain.
  weir.signal('SIGHUP');
  const third = await until(async () => (await weir.servingPids())[WORKERS], eventually);
  kill(third, 'SIGKILL');
  await until(() => weir.events('restart_failed').length > 0, eventually);
  expect(weir.events('restart_failed')).toMatchObject([
    { reason: `the new process ${third} was ended by SIGKILL`, replaced: 0, kept: WORKERS },
  ]);
  expect(await weir.servingPids()).toEqual(first);
});

test('kill -9 while processes are added and removed', { timeout: TEST_MS }, async () => {
  const [first] = await weir.servingPids();
  weir.signal('SIGTTIN');
  kill(first!, 'SIGKILL');
  await until(async () => (await weir.metric('weir_processes')) === WORKERS + 1, eventually);
  const [second] = await weir.servingPids();
  weir.signal('SIGTTOU');
  kill(second!, 'SIGKILL');
  await until(async () => {
    const pids = await weir.servingPids();
    return pids.length === WORKERS && !pids.includes(second!);
  }, eventually);
  await until(async () => (await weir.metric('weir_processes')) === WORKERS, eventually);
});

test('a new version that never listens is abandoned, and the old processes continue to serve', {
  timeout: TEST_MS,
}, async () => {
  const before = await weir.servingPids();
  await installation.replace('server/process/app.ts', hang);
  await configure('PROCESS_READY_SECONDS=2');
  const sender = startSender({ port: weir.port, ...webhook });
  await sender.acceptMore(100);
  expect(await restart()).toMatchObject({
    event: 'restart_failed',
    level: 50,
    reason: 'it was not ready within 2 s (PROCESS_READY_SECONDS)',
    replaced: 0,
    kept: WORKERS,
  });
  expect(await weir.servingPids()).toEqual(before);
  expect(await weir.metric('weir_rolling_restarts_total')).toBe(ends());
  await sender.acceptMore(100);
  await expectNothingBroken(sender);

  await installation.repair();
  await configure();
  expect(await restart()).toMatchObject({ event: 'restarted', replaced: WORKERS });
});

test('a new version that exits at once ends the restart, not the service', { timeout: TEST_MS }, async () => {
  const before = await weir.servingPids();
  await installation.replace('server/process/app.ts', exitAtOnce);
  expect(await restart()).toMatchObject({
    event: 'restart_failed',
    reason: expect.stringMatching(/^the new process \d+ ended with exit code 7$/),
    kept: WORKERS,
  });
  expect(await weir.servingPids()).toEqual(before);
  // More consecutive exits than would stop a Weir without serving processes: it retries with pauses while the old ones serve.
  const deaths = () => weir.events('process_exited').length;
  const known = deaths();
  await scale('SIGTTIN', 9);
  await until(() => deaths() > known + 10, eventually);
  await scale('SIGTTOU', 9);
  expect(await weir.servingPids()).toEqual(expect.arrayContaining(before));
  expect((await ask(weir.port, '/healthz')).status).toBe(200);
  expect(weir.events('crash_loop')).toEqual([]);
  await installation.repair();
});

test('TERM during a hanging restart ends everything', { timeout: TEST_MS }, async () => {
  await installation.replace('server/process/app.ts', hang);
  weir.signal('SIGHUP');
  await until(async () => (await weir.servingPids()).length > WORKERS, eventually);
  weir.signal('SIGTERM');
  expect(await weir.ended).toBe(0);
  expect(weir.events('restart_failed').at(-1)).toMatchObject({ reason: 'Weir is stopping', kept: WORKERS });
  expect(await processesOf(weir.dataDir)).toEqual([]);
  expect(await isListening(weir.port)).toBe(false);
});
