/** Restarts that overlap, fail or are interrupted end with the configured number of processes, and old processes serve until new ones do. */
import { setTimeout as delay } from 'node:timers/promises';
import { expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import type { Installation } from '../../helpers/installation.ts';
import { isListening, processesOf } from '../../helpers/processes.ts';
import { DRAINING, missing, type Sender } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { ask, kill } from '../../helpers/weir.ts';

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

  /** The largest number of processes seen from now on; `stop` ends the watch. */
  function watchProcesses() {
    let most = 0;
    let watching = true;
    const watch = (async () => {
      while (watching) {
        most = Math.max(most, (await chain.weir.servingPids()).length);
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
    expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
  }

  test('a HUP during a restart starts one more restart after it', async () => {
    const before = await chain.weir.servingPids();
    const sender = await chain.startLoad({ first: 100, ...DRAINING });
    const watch = watchProcesses();
    chain.weir.signal('SIGHUP');
    await until(async () => (await chain.weir.servingPids()).length > WORKERS);
    chain.weir.signal('SIGHUP');
    await until(() => ends() === 2);
    await quiet();
    const after = await chain.weir.servingPids();
    expect(after).toHaveLength(WORKERS);
    expect(after.filter((pid) => before.includes(pid))).toEqual([]);
    expect(chain.events('restarted')).toMatchObject([{ replaced: WORKERS }, { replaced: WORKERS }]);
    expect(await watch.stop()).toBe(WORKERS + 1);
    await sender.acceptMore(100);
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
    await sender.acceptMore(100);
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
    await sender.acceptMore(100);
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
