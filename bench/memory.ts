/**
 * Scenario `memory`: resident memory of a serving process after bodies of each size, in a process that is new in each round.
 *
 *     each round:  start | 1 KiB | 16 KiB | 256 KiB | 1 MiB | 1 KiB again;  after each load the highest sample, and the value after a rest
 *
 * All processes of a machine share the pages of the Node executable, so the figures are stated without them too.
 */
import { readFileSync } from 'node:fs';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { watchResident } from '../server/operate/load/child.ts';
import { benchBody, emptyTable, signedRequest } from '../server/operate/load/environment.ts';
import { openBenchDatabase } from './lib/database.ts';
import { type BenchContext, type BenchOutcome, below, type Scenario, tabulate } from './lib/outcome.ts';
import { formatNumber } from './lib/stats.ts';
import { startWeir } from './lib/weir.ts';
import { requireWrk, runWrk, writeScript } from './lib/wrk.ts';

const KIB = 1024;
const LOADS = [
  { name: '1 KiB, 256 connections', bodyBytes: KIB, connections: 256 },
  { name: '16 KiB, 64 connections', bodyBytes: 16 * KIB, connections: 64 },
  { name: '256 KiB, 16 connections', bodyBytes: 256 * KIB, connections: 16 },
  { name: '1 MiB, 8 connections', bodyBytes: 1024 * KIB, connections: 8 },
  { name: '1 KiB again, 256 connections', bodyBytes: KIB, connections: 256 },
];
const START = 'after the start';
const REST_MS = 3_000;
const MB = 1e6;
const MB_MAX = 160;

export const memory: Scenario = {
  name: 'memory',
  summary: 'resident memory of a serving process after bodies of each size, with and without the Node executable',
  defaults: { rounds: 3, seconds: 6 },
  run,
};

interface Resident {
  allMb: number;
  /** Without pages of the Node executable. */
  ownMb: number;
}

interface Series {
  name: string;
  peakMb: number[];
  rest: Resident[];
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  requireWrk();
  const bench = await openBenchDatabase(context);
  const scriptOf = (bodyBytes: number) => join(bench.directory, `${bodyBytes}.lua`);
  for (const { bodyBytes } of LOADS)
    writeScript(scriptOf(bodyBytes), signedRequest(bench.secret, benchBody(bodyBytes)));
  const all: Series[] = [START, ...LOADS.map(({ name }) => name)].map((name) => ({ name, peakMb: [], rest: [] }));
  for (let round = 1; round <= context.rounds; round++) {
    const directory = join(bench.directory, String(round));
    await mkdir(directory, { mode: 0o711 });
    const weir = await startWeir({ ...bench, directory, processes: 1 });
    try {
      const pid = weir.processes[0]!;
      for (const series of all) {
        const { seconds, signal } = context;
        const load = LOADS.find(({ name }) => name === series.name);
        const send = async () =>
          load && runWrk({ ...load, url: weir.url, script: scriptOf(load.bodyBytes), seconds }, signal);
        series.peakMb.push((await watchResident([pid], send)).peakBytes / MB);
        await emptyTable(bench.database, 'events');
        await delay(REST_MS, undefined, { signal: context.signal });
        series.rest.push(residentOf(pid));
        const { allMb, ownMb } = series.rest.at(-1)!;
        context.say(
          `round ${round} of ${context.rounds}: ${series.name}: highest ${formatNumber(series.peakMb.at(-1)!)} MB, ` +
            `then ${formatNumber(allMb)} MB, ${formatNumber(ownMb)} MB without the executable`,
        );
      }
    } finally {
      await weir.stop();
    }
  }
  return summarise(all);
}

/** From /proc/PID/smaps: each mapping is a line with its file, then its figures. */
function residentOf(pid: number): Resident {
  let [all, executable] = [0, 0];
  let isExecutable = false;
  for (const line of readFileSync(`/proc/${pid}/smaps`, 'utf8').split('\n')) {
    if (/^[0-9a-f]+-[0-9a-f]+ /.test(line)) isExecutable = line.endsWith(` ${process.execPath}`);
    const [, kib] = /^Rss: +(\d+) kB$/.exec(line) ?? [];
    if (kib === undefined) continue;
    all += Number(kib);
    if (isExecutable) executable += Number(kib);
  }
  return { allMb: (all * KIB) / MB, ownMb: ((all - executable) * KIB) / MB };
}

function summarise(all: readonly Series[]): BenchOutcome {
  const rested = ({ rest }: Series) => rest.map(({ allMb }) => allMb);
  const { table, measures } = tabulate('memory of a process', all, [
    ['highest, MB', ['highest', 'MB'], ({ peakMb }) => peakMb],
    [`after ${REST_MS / 1_000} s, MB`, ['after a rest', 'MB'], rested],
    ['without the executable, MB', ['without the executable', 'MB'], ({ rest }) => rest.map(({ ownMb }) => ownMb)],
  ]);
  return {
    tables: [table],
    measures,
    goals: all.map((one) => below(`memory of a process after a rest, ${one.name}:`, rested(one), MB_MAX, 'MB')),
    notes: [
      'One serving process. Resident memory (VmRSS, sampled four times a second; after the rest the sum of smaps).',
    ],
  };
}
