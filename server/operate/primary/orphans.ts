/** Serving processes whose primary was killed. They end as soon as they notice, and hold PORT until then. */
import { readdir, readFile } from 'node:fs/promises';
import { basename } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { PortInUseError, probePort } from '../../base/settings/port.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { OperatorError } from '../../model/fault.ts';

const PROBE_EVERY_MS = 100;

/**
 * Resolves when PORT is free, or `stopping` aborts. Waits for orphans at most DRAIN_SECONDS, in which they would have answered their
 * requests. Rejects with OperatorError when another program has the port, or orphans keep it.
 */
export async function waitForPort(
  { HOST, PORT, DRAIN_SECONDS }: Pick<Settings, 'HOST' | 'PORT' | 'DRAIN_SECONDS'>,
  log: Log,
  stopping: AbortSignal,
): Promise<void> {
  const endMs = performance.now() + DRAIN_SECONDS * 1000;
  for (let isLogged = false; !stopping.aborted; isLogged = true) {
    // Before the probe: an orphan that ends between the two has freed the port.
    const orphans = await findOrphans();
    const error = await probePort('PORT', HOST, PORT).then(
      () => null,
      (error: Error) => error,
    );
    if (error === null) return;
    if (!(error instanceof PortInUseError) || orphans.length === 0) throw error;
    const processes = orphans.join(' ');
    if (performance.now() >= endMs)
      throw new OperatorError(
        `PORT ${PORT} on ${HOST} is still in use after ${DRAIN_SECONDS} s (DRAIN_SECONDS), and processes of a Weir whose primary was killed have not ended: ${processes}`,
        `kill -9 ${processes}`,
      );
    if (!isLogged) log('orphans_awaited', { processes: orphans });
    await delay(PROBE_EVERY_MS, undefined, { signal: stopping }).catch(() => {});
  }
}

/** Serving processes of any installation on this machine whose parent is no longer a Node process. Empty without /proc. */
async function findOrphans(): Promise<number[]> {
  const pids = (await readdir('/proc').catch(() => [])).map(Number).filter((pid) => pid > 0);
  const judged = await Promise.all(
    pids.map(async (pid) => {
      const isServing = (await argumentsOf(pid)).at(-1)?.endsWith('/server/main.js') ?? false;
      if (!isServing) return false;
      const parent = /^PPid:\s+(\d+)$/m.exec(await readFile(`/proc/${pid}/status`, 'utf8').catch(() => ''))?.[1];
      if (parent === undefined) return false;
      const [program = ''] = await argumentsOf(Number(parent));
      return basename(program) !== basename(process.execPath);
    }),
  );
  return pids.filter((_, index) => judged[index]);
}

/** The command line of a process; empty for one that has ended. */
async function argumentsOf(pid: number): Promise<string[]> {
  const text = await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '');
  return text.split('\0').slice(0, -1);
}
