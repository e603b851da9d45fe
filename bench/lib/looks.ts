/** Times pages, API calls and claims one after another: wall time, and the processor time of Weir and Postgres. */

import { setTimeout as delay } from 'node:timers/promises';
import { CommandError } from '../../server/base/command/io.ts';
import { readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { type BenchDatabase, postgresPids } from './database.ts';
import type { BenchContext, Goal, Measure, Table } from './outcome.ts';
import { formatSpread, spreadOf } from './stats.ts';
import type { startWeir } from './weir.ts';

interface Look {
  ms: number;
  /** Processor time, also of what else ran in between. */
  postgresMs: number;
  weirMs: number;
}

/** What was timed, by name, in the order of the first time. */
export class Looks {
  readonly timed = new Map<string, Look[]>();
  readonly #database: Database;
  readonly #pids: readonly number[];

  /** @param pids processes of Weir whose time counts */
  constructor(database: Database, pids: readonly number[]) {
    this.#database = database;
    this.#pids = pids;
  }

  /** Runs `work` and notes its time. */
  async time(name: string, work: () => Promise<unknown>): Promise<void> {
    const before = await this.#read();
    const startMs = performance.now();
    await work();
    const ms = performance.now() - startMs;
    const { postgres, ...ofWeir } = timeBetween(before, await this.#read());
    const weirMs = (ofWeir.eventLoop + ofWeir.signatures + ofWeir.other) / 1000;
    this.timed.set(name, [...(this.timed.get(name) ?? []), { ms, postgresMs: postgres / 1000, weirMs }]);
  }

  /** The name with the longest median of wall time, and that. */
  get slowest(): readonly [ms: number, name: string] {
    return [...this.timed]
      .map(([name, looks]) => [spreadOf(valuesOf(looks, 'ms')).median, name] as const)
      .sort(([a], [b]) => b - a)[0]!;
  }

  async #read() {
    return readProcessor(this.#pids, await postgresPids(this.#database));
  }
}

function valuesOf(looks: readonly Look[], of: keyof Look): number[] {
  return looks.map((look) => look[of]);
}

/** @param shown the name of a look as the report has it. @param belowMs goal of the median of the wall time */
export function reportLooks(
  timed: ReadonlyMap<string, Look[]>,
  shown: (name: string) => string,
  belowMs: number,
): { table: Table; measures: Measure[]; goals: Goal[] } {
  const columns = ['ms', 'postgresMs', 'weirMs'] as const;
  return {
    table: {
      header: ['', 'ms', 'CPU of Postgres, ms', 'CPU of Weir, ms'],
      rows: [...timed].map(([name, looks]) => [
        shown(name),
        ...columns.map((column) => formatSpread(valuesOf(looks, column))),
      ]),
    },
    measures: [...timed].map(([name, looks]) => ({ name: shown(name), unit: 'ms', values: valuesOf(looks, 'ms') })),
    goals: [...timed].map(([name, looks]) => ({
      what: `${shown(name)}, p50:`,
      value: spreadOf(valuesOf(looks, 'ms')).median,
      unit: 'ms',
      below: belowMs,
    })),
  };
}

/** Returns a function that loads a page or an API call. It rejects with CommandError when the answer is not 200. */
export function lookWith(origin: string, token: string): (path: string) => Promise<string> {
  return async (path) => {
    const response = await fetch(origin + path, { headers: { authorization: `Bearer ${token}` }, redirect: 'manual' });
    const text = await response.text();
    if (response.status !== 200)
      throw new CommandError(`${path} was answered ${response.status}: ${text.slice(0, 300)}`);
    return text;
  };
}

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
