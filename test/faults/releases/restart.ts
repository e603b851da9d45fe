/** Restarts that overlap, fail or are interrupted end with the configured number of processes, and old processes serve until new ones do. */
import { rm } from 'node:fs/promises';
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import type { Installation } from '../../helpers/installation.ts';
import { freePort } from '../../helpers/ports.ts';
import { isListening, processesOf } from '../../helpers/processes.ts';
import { DRAINING, type Sender } from '../../helpers/sender.ts';
import { someKey } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { ask, kill, makeDataDir, spawnWeir } from '../../helpers/weir.ts';
import { expectNothingLost } from '../under-load.ts';

const WORKERS = 2;
const LOOK_EVERY_MS = 10;
const hang = (built: string) =>
  built.replace('async function startApp(', '$&) { return new Promise(() => {}); }\nasync function replaced(');
const exitAtOnce = (built: string) => `${built}\nprocess.exit(7);`;

/** @param installation where it runs */
export function restartTests(chain: Chain, installation: () => Installation): void {
  /** Number of restarts that have succeeded or failed. */
  const ends = () => chain.events('restarted').length + chain.events('restart_failed').length;

  /** Every restart that began has ended, and none follows. */
  const quiet = () => until(() => chain.events('restarting').length === ends());

  /** One at a time: pending signals of one kind are delivered as one. */
  async function scale(signal: 'SIGTTIN' | 'SIGTTOU', times = 1): Promise<void> {
    for (let i = 0; i < times; i++) {
      const reported = chain.events('processes_changed').length;
      chain.weir.signal(signal);
      await until(() => chain.events('processes_changed').length > reported);
    }
  }

  /** The largest number of processes seen until `done`. */
  async function mostProcesses(done: () => Promise<unknown>): Promise<number> {
    let most = 0;
    let watching = true;
    const ended = done().finally(() => {
      watching = false;
    });
    while (watching) {
      most = Math.max(most, (await chain.weir.servingPids()).length);
      await delay(LOOK_EVERY_MS);
    }
    await ended;
    return most;
  }

  async function expectNothingBroken(sender: Sender): Promise<void> {
    await sender.acceptMore(100);
    await sender.stop();
    await expectNothingLost(chain, sender, { losses: 'of new connections' });
  }

  test('a HUP during a restart starts one more restart after it', async () => {
    const before = await chain.weir.servingPids();
    const sender = await chain.startLoad({ first: 100, ...DRAINING });
    const most = await mostProcesses(async () => {
      chain.weir.signal('SIGHUP');
      await until(async () => (await chain.weir.servingPids()).length > WORKERS);
      chain.weir.signal('SIGHUP');
      await until(() => ends() === 2);
      await quiet();
    });
    const after = await chain.weir.servingPids();
    expect(after).toHaveLength(WORKERS);
    expect(after.filter((pid) => before.includes(pid))).toEqual([]);
    expect(chain.events('restarted')).toMatchObject([{ replaced: WORKERS }, { replaced: WORKERS }]);
    expect(most).toBe(WORKERS + 1);
    await expectNothingBroken(sender);
  });

  test('20 HUPs with TTIN and TTOU cause few restarts and the correct number of processes', async () => {
    const before = ends();
    const sender = await chain.startLoad({ first: 100, ...DRAINING });
    for (let i = 0; i < 20; i++) {
      chain.weir.signal('SIGHUP');
      if (i % 5 > 2) await scale(i % 5 === 3 ? 'SIGTTIN' : 'SIGTTOU');
    }
    await until(() => ends() > before);
    await quiet();
    await until(async () => (await chain.weir.servingPids()).length === WORKERS);
    // At most one restart for each wait of the test, and one more.
    expect(ends() - before).toBeLessThan(10);
    expect(chain.events('restart_failed')).toEqual([]);
    await expectNothingBroken(sender);
  });

  test('kill -9 of old and new processes during a restart', async () => {
    const before = await chain.weir.servingPids();
    const known = ends();
    chain.weir.signal('SIGHUP');
    await until(async () => (await chain.weir.servingPids()).length > WORKERS);
    kill(before[1]!, 'SIGKILL');
    await until(() => ends() > known);
    expect(chain.events('restart_failed')).toEqual([]);
    const first = await chain.weir.servingPids();
    expect(first).toHaveLength(WORKERS);
    expect(first.filter((pid) => before.includes(pid))).toEqual([]);

    // The third process is the new one: without it the restart has failed, and the two old ones remain.
    chain.weir.signal('SIGHUP');
    const third = await until(async () => (await chain.weir.servingPids())[WORKERS]);
    kill(third, 'SIGKILL');
    await until(() => chain.events('restart_failed').length > 0);
    expect(chain.events('restart_failed')).toMatchObject([
      { reason: `the new process ${third} was ended by SIGKILL`, replaced: 0, kept: WORKERS },
    ]);
    expect(await chain.weir.servingPids()).toEqual(first);
  });

  test('kill -9 while processes are added and removed', async () => {
    const [first] = await chain.weir.servingPids();
    chain.weir.signal('SIGTTIN');
    kill(first!, 'SIGKILL');
    await until(async () => (await chain.weir.metric('weir_processes')) === WORKERS + 1);
    const [second] = await chain.weir.servingPids();
    chain.weir.signal('SIGTTOU');
    kill(second!, 'SIGKILL');
    await until(async () => {
      const pids = await chain.weir.servingPids();
      return pids.length === WORKERS && !pids.includes(second!);
    });
    await until(async () => (await chain.weir.metric('weir_processes')) === WORKERS);
  });

  test('a new version that never listens is abandoned, and the old processes continue to serve', async () => {
    const before = await chain.weir.servingPids();
    await installation().replace('server/operate/process/app.ts', hang);
    await chain.set({ PROCESS_READY_SECONDS: 2 });
    const sender = await chain.startLoad({ first: 100, ...DRAINING });
    expect(await chain.restart()).toMatchObject({
      event: 'restart_failed',
      level: 50,
      reason: 'it was not ready within 2 s (PROCESS_READY_SECONDS)',
      replaced: 0,
      kept: WORKERS,
    });
    expect(await chain.weir.servingPids()).toEqual(before);
    expect(await chain.weir.metric('weir_rolling_restarts_total')).toBe(
      chain.weir.events('restarted').length + chain.weir.events('restart_failed').length,
    );
    await expectNothingBroken(sender);

    await installation().repair();
    await chain.set();
    expect(await chain.restart()).toMatchObject({ event: 'restarted', replaced: WORKERS });
  });

  test('a new version that exits at once ends the restart, not the service', async () => {
    const before = await chain.weir.servingPids();
    await installation().replace('server/operate/process/app.ts', exitAtOnce);
    expect(await chain.restart()).toMatchObject({
      event: 'restart_failed',
      reason: expect.stringMatching(/^the new process \d+ ended with exit code 7$/),
      kept: WORKERS,
    });
    expect(await chain.weir.servingPids()).toEqual(before);
    // More consecutive exits than would stop a Weir without serving processes: it retries with pauses while the old ones serve.
    const deaths = () => chain.events('process_exited').length;
    const known = deaths();
    await scale('SIGTTIN', 9);
    await until(() => deaths() > known + 10);
    await scale('SIGTTOU', 9);
    expect(await chain.weir.servingPids()).toEqual(expect.arrayContaining(before));
    expect((await ask(chain.weir.port, '/healthz')).status).toBe(200);
    expect(chain.events('crash_loop')).toEqual([]);
    await installation().repair();
  });
}

/** Weir has ended after this. */
export function hangingTests(chain: Chain, installation: () => Installation): void {
  test('TERM during a hanging restart ends everything', async () => {
    await installation().replace('server/operate/process/app.ts', hang);
    chain.weir.signal('SIGHUP');
    await until(async () => (await chain.weir.servingPids()).length > WORKERS);
    chain.weir.signal('SIGTERM');
    expect(await chain.weir.ended).toBe(0);
    expect(chain.events('restart_failed').at(-1)).toMatchObject({ reason: 'Weir is stopping', kept: WORKERS });
    expect(await processesOf(chain.weir.dataDir)).toEqual([]);
    expect(await isListening(chain.weir.port)).toBe(false);
  });
}

/** @param chain runs on the same database @param installation restored before its next process starts */
export function crashLoopTests(chain: Chain, installation: () => Installation): void {
  test('a process that cannot start ends the service with exit code 1', async () => {
    await installation().replace(
      'server/operate/process/app.ts',
      (built) => `${built}\nthrow new Error('this file is broken');`,
    );
    const dataDir = await makeDataDir();
    const ports = { PORT: await freePort(), METRICS_PORT: await freePort() };
    // Ten consecutive exits with growing pauses: as many as can exit in the first batch.
    const settings = { DATABASE_URL: chain.weir.conninfo, SECRETS_KEY: someKey, DATA_DIR: dataDir, WORKERS: 10 };
    const weir = spawnWeir({ ...settings, ...ports }, { entry: installation().entry });
    try {
      expect(await weir.ended).toBe(1);
      const reason = '10 consecutive processes ended before they served (last: 1)';
      expect(weir.events('crash_loop')).toMatchObject([{ level: 60, reason }]);
      expect(weir.events('process_exited').length).toBeGreaterThanOrEqual(10);
      // The last output of a process is part of the log.
      expect(weir.events('process_output').map(({ line }) => line)).toContainEqual(
        expect.stringContaining('\nError: this file is broken\n    at '),
      );
      // They never listened, and the log does not claim it.
      expect(weir.events('listening')).toEqual([]);
      expect(weir.events('stopped')).toHaveLength(1);
      expect(await processesOf(dataDir)).toEqual([]);
    } finally {
      weir.child.kill('SIGKILL');
      await weir.ended;
      await installation().repair();
      await rm(dataDir, { recursive: true });
    }
  });
}
