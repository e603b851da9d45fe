/** Times pages, API calls and claims one after another: wall time, and the processor time of Weir and Postgres. */

import { CommandError } from '../../server/base/command/io.ts';
import { readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { postgresPids } from './database.ts';
import type { Measure, Table } from './outcome.ts';
import { formatSpread, spreadOf } from './stats.ts';
import { ownUs } from './window.ts';

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
    const us = timeBetween(before, await this.#read());
    const look = { ms, postgresMs: us.postgres / 1000, weirMs: ownUs(us) / 1000 };
    this.timed.set(name, [...(this.timed.get(name) ?? []), look]);
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

/** @param shown the name of a look as the report has it */
export function reportLooks(
  timed: ReadonlyMap<string, Look[]>,
  shown: (name: string) => string,
): { table: Table; measures: Measure[] } {
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
