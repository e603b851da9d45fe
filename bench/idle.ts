/**
 * Scenario `idle`: what a Weir costs that receives nothing: processor time and wake-ups a minute of a serving process, the primary
 * and Postgres, from timers, heartbeats and maintenance.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { setTimeout as delay } from 'node:timers/promises';
import { postgresPids } from './lib/database.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';

/** Start-up work (compilation, first maintenance, connections of the pool that close) is over by then. */
const SETTLE_MS = 35_000;
/** 1 % of a core. */
const CPU_MS_PER_MINUTE_MAX = 600;

export const idle: Scenario = {
  name: 'idle',
  summary: 'processor time and wake-ups a minute of a Weir that receives nothing',
  defaults: { rounds: 3, seconds: 20 },
  run,
};

interface Series {
  name: string;
  pids: () => Promise<readonly number[]>;
  cpuMs: number[];
  wakeUps: number[];
}

interface Reading {
  cpuMs: number;
  wakeUps: number;
}

async function run(context: BenchContext): Promise<Outcome> {
  const { database, weir } = await openWeir(context);
  const series = (name: string, pids: Series['pids']): Series => ({ name, pids, cpuMs: [], wakeUps: [] });
  const all = [
    series('serving process', async () => weir.processes),
    series('primary', async () => [weir.pid]),
    series('Postgres', () => postgresPids(database)),
  ];
  await delay(SETTLE_MS, undefined, { signal: context.signal });
  for (let round = 1; round <= context.rounds; round++) {
    const pids = await Promise.all(all.map((one) => one.pids()));
    const before = pids.map(readAll);
    await delay(context.seconds * 1000, undefined, { signal: context.signal });
    for (const [i, one] of all.entries()) {
      const after = readAll(pids[i]!);
      const perMinute = 60 / context.seconds;
      one.cpuMs.push((after.cpuMs - before[i]!.cpuMs) * perMinute);
      one.wakeUps.push((after.wakeUps - before[i]!.wakeUps) * perMinute);
      context.say(
        `round ${round} of ${context.rounds}: ${one.name}: ${formatNumber(one.cpuMs.at(-1)!)} ms and ` +
          `${formatNumber(one.wakeUps.at(-1)!)} wake-ups a minute`,
      );
    }
  }
  return {
    tables: [
      {
        header: ['a minute without requests', 'processor time, ms', 'wake-ups'],
        rows: all.map(({ name, cpuMs, wakeUps }) => [name, formatSpread(cpuMs), formatSpread(wakeUps)]),
      },
    ],
    measures: all.flatMap(({ name, cpuMs, wakeUps }) => [
      { name: `${name}: CPU`, unit: 'ms a minute', values: cpuMs },
      { name: `${name}: wake-ups`, unit: 'a minute', values: wakeUps },
    ]),
    ratios: [],
    goals: [
      {
        what: 'processor time of an idle process a minute:',
        value: spreadOf(all[0]!.cpuMs).median,
        unit: 'ms',
        below: CPU_MS_PER_MINUTE_MAX,
      },
    ],
    notes: [
      'Weir with 1 process. A wake-up is a voluntary context switch of any of its threads. One query reads the ids of the Postgres processes.',
    ],
    faults: all
      .filter(({ wakeUps }) => wakeUps.every((count) => count <= 0))
      .map(({ name }) => `${name}: no wake-up was counted`),
  };
}

/** Processor time and wake-ups of all threads of the processes since they started. A process that has exited counts 0. */
function readAll(pids: readonly number[]): Reading {
  const total: Reading = { cpuMs: 0, wakeUps: 0 };
  for (const pid of pids) {
    try {
      for (const thread of readdirSync(`/proc/${pid}/task`)) {
        const read = (file: string) => readFileSync(`/proc/${pid}/task/${thread}/${file}`, 'utf8');
        total.cpuMs += Number(read('schedstat').split(' ')[0]) / 1e6;
        total.wakeUps += Number(/^voluntary_ctxt_switches:\s+(\d+)/m.exec(read('status'))?.[1] ?? 0);
      }
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException;
      if (code !== 'ENOENT' && code !== 'ESRCH') throw error;
    }
  }
  return total;
}
