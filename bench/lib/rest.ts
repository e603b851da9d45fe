/** Processor time of a Weir over a time in which the bench only waits. */
import { setTimeout as delay } from 'node:timers/promises';
import { readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import { type BenchDatabase, postgresPids } from './database.ts';
import type { BenchContext } from './outcome.ts';
import type { startWeir } from './weir.ts';

/** In milliseconds of a core. */
export interface Rest {
  name: string;
  /** All serving processes. */
  processMs: number;
  primaryMs: number;
  postgresMs: number;
}

interface Server {
  name: string;
  bench: Pick<BenchDatabase, 'database'>;
  weir: Pick<Awaited<ReturnType<typeof startWeir>>, 'pid' | 'processes'>;
}

/** @param ms how long */
export async function measureRest(context: BenchContext, servers: readonly Server[], ms: number): Promise<Rest[]> {
  const read = () =>
    Promise.all(
      servers.map(async ({ bench, weir }) => ({
        process: readProcessor(weir.processes, await postgresPids(bench.database)),
        primary: readProcessor([weir.pid], []),
      })),
    );
  const before = await read();
  await delay(ms, undefined, { signal: context.signal });
  const after = await read();
  return servers.map(({ name }, i) => {
    const { postgres, ...process } = timeBetween(before[i]!.process, after[i]!.process);
    const primary = timeBetween(before[i]!.primary, after[i]!.primary);
    const msOf = (time: object) => Object.values(time).reduce((sum, us: number) => sum + us, 0) / 1000;
    return { name, processMs: msOf(process), primaryMs: msOf(primary), postgresMs: postgres / 1000 };
  });
}
