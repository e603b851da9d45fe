/** Processes of Weir that are stopped, as by a debugger, a full swap or an endless loop, and continue or do not. */
import { afterEach, describe, expect, test } from 'vitest';
import type { Chain } from '../../helpers/chain.ts';
import { missing } from '../../helpers/sender.ts';
import { until } from '../../helpers/wait.ts';
import { kill, readiness } from '../../helpers/weir.ts';

/** Begins with a PROCESS_SILENT_SECONDS that no test waits for. */
export function frozenTests(chain: Chain): void {
  describe('a process that is stopped', () => {
    let frozen: number[] = [];
    function freeze(pid: number): void {
      kill(pid, 'SIGSTOP');
      frozen.push(pid);
    }
    function thaw(): void {
      for (const pid of frozen) kill(pid, 'SIGCONT');
      frozen = [];
    }
    afterEach(thaw);

    test('a stopped process delays the requests of its connections, and loses none when it continues', async () => {
      const restarts = () => chain.weir.metric('weir_process_restarts_total');
      const before = await restarts();
      const sender = await chain.startLoad();
      expect(sender.answeredBy.size).toBe(2);
      freeze((await chain.weir.servingPids())[0]!);
      // The other process accepts these requests.
      await sender.acceptMore(500);
      thaw();
      await sender.acceptMore(500);
      await sender.stop();
      expect(sender.refusals).toEqual([]);
      expect(sender.losses).toEqual([]);
      expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
      expect(await restarts()).toBe(before);
    });

    test('a process that does not answer for PROCESS_SILENT_SECONDS is replaced', async () => {
      await chain.configure({ PROCESS_SILENT_SECONDS: 10 });
      const sender = await chain.startLoad();
      const [victim] = await chain.weir.servingPids();
      freeze(victim!);
      const beganMs = performance.now();
      await until(() => chain.events('process_exited').length > 0);
      const seconds = (performance.now() - beganMs) / 1000;
      expect(chain.events('process_exited')).toMatchObject([
        { process: victim, reason: 'it did not answer for 10 s (PROCESS_SILENT_SECONDS)' },
      ]);
      await until(async () => (await chain.weir.metric('weir_processes')) === 2);
      await sender.acceptMore(500);
      await sender.stop();
      console.log(
        `a stopped process was replaced after ${seconds.toFixed(1)} s; ${sender.losses.length} requests had no answer`,
      );
      // At most one request a connection was in progress at the stopped process.
      expect(sender.losses.length).toBeLessThanOrEqual(32);
      expect(sender.refusals).toEqual([]);
      expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
    });

    test('while the primary is stopped, its processes serve; it continues without replacing them', async () => {
      const before = await chain.weir.servingPids();
      const sender = await chain.startLoad();
      freeze(chain.weir.pid);
      // For longer than the processes need to notice the silence of the primary (1 s): then they check with the database.
      const untilMs = performance.now() + 12_000;
      while (performance.now() < untilMs) await sender.acceptMore(100);
      expect((await readiness(chain.weir.port))?.status).toBe(200);
      thaw();
      await until(async () => (await chain.weir.metric('weir_processes')) === 2);
      await sender.acceptMore(300);
      await sender.stop();
      expect(sender.refusals).toEqual([]);
      expect(sender.losses).toEqual([]);
      expect(await chain.weir.servingPids()).toEqual(before);
      expect(await missing(chain.weir.database, sender.accepted)).toEqual([]);
    });
  });
}
