/**
 * Scenario `receive`, the main figure: signed requests of 1 KiB over loopback, each verified and committed before its 202.
 *
 *     each round:  Weir 1 | Weir 2 | bare | Fastify     at 256 connections, then the same at 1 connection
 *     each turn:   warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted
 */

import { randomBytes } from 'node:crypto';
import { join } from 'node:path';
import { watchResident } from '../server/cli/bench/child.ts';
import { benchBody, emptyTable, signedRequest } from '../server/cli/bench/ground.ts';
import { BARE, type Contestant, FASTIFY, startContestants, WEIR_1, WEIR_2 } from './lib/contestants.ts';
import { openBenchDatabase, settledRows } from './lib/database.ts';
import type { BenchContext, Measure, Outcome, Ratio, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { requireWrk, runWrk, type WrkWindow, writeScript } from './lib/wrk.ts';

const BODY_BYTES = 1024;
const CONNECTIONS = 256;
const WARM_UP_SECONDS = 2;
const MB = 1e6;

export const receive: Scenario = {
  name: 'receive',
  summary: 'signed 1 KiB requests, verified and committed (fsync on) before the 202',
  defaults: { rounds: 7, seconds: 4 },
  run,
};

interface Window extends WrkWindow {
  /** Highest resident memory of any serving process in the window. */
  residentMb: number;
  /** Rows committed in the window; null for a contestant that stores nothing. */
  rows: number | null;
}

/** The windows of one contestant, one per round. */
interface Series {
  contestant: Contestant;
  loaded: Window[];
  alone: Window[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const bench = await openBenchDatabase(context);
  const secret = randomBytes(24).toString('base64url');
  const script = join(bench.directory, 'request.lua');
  writeScript(script, signedRequest(secret, benchBody(BODY_BYTES)));
  const contestants = await startContestants(context, bench, secret);
  const all: Series[] = contestants.map((contestant) => ({ contestant, loaded: [], alone: [] }));

  async function measure({ url, table, processes }: Contestant, connections: number): Promise<Window> {
    const load = (seconds: number) => runWrk({ url, script, connections, seconds }, context.signal);
    await load(WARM_UP_SECONDS);
    if (table !== null) {
      await settledRows(bench.database, table);
      await emptyTable(bench.database, table);
    }
    const { result, peakBytes } = await watchResident(processes, () => load(context.seconds));
    const rows = table === null ? null : await settledRows(bench.database, table);
    return { ...result, residentMb: peakBytes / MB, rows };
  }

  for (let round = 1; round <= context.rounds; round++)
    for (const connections of [CONNECTIONS, 1])
      for (const { contestant, loaded, alone } of all) {
        const window = await measure(contestant, connections);
        (connections === 1 ? alone : loaded).push(window);
        context.say(
          `round ${round} of ${context.rounds}: ${contestant.name} at ${connections}: ` +
            `${formatNumber(window.requestsPerSecond)} requests/s, p50 ${formatNumber(window.p50Ms)} ms, ` +
            `p99 ${formatNumber(window.p99Ms)} ms, ${formatNumber(window.residentMb)} MB`,
        );
      }
  return summarise(all);
}

function summarise(all: readonly Series[]): Outcome {
  const series = (name: string) => all.find(({ contestant }) => contestant.name === name)!;
  const rates = (name: string) => series(name).loaded.map((window) => window.requestsPerSecond);
  const ratio = (of: string, to: string): Ratio => ({ of, to, values: ratioByRound(rates(of), rates(to)) });
  const median = (name: string, load: 'loaded' | 'alone', of: keyof Window) =>
    spreadOf(series(name)[load].map((window) => window[of] as number)).median;
  const toBare = ratio(WEIR_1, BARE);
  const toFastify = ratio(WEIR_1, FASTIFY);
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, 'requests/s', 'p50 ms', 'p99 ms', 'MB of a process'],
        rows: all.map(({ contestant, loaded }) => [
          contestant.name,
          ...(['requestsPerSecond', 'p50Ms', 'p99Ms', 'residentMb'] as const).map((key) => spreadText(loaded, key)),
        ]),
      },
      {
        header: ['1 connection', 'requests/s', 'p50 ms', 'p99 ms'],
        rows: all.map(({ contestant, alone }) => [
          contestant.name,
          ...(['requestsPerSecond', 'p50Ms', 'p99Ms'] as const).map((key) => spreadText(alone, key)),
        ]),
      },
    ],
    measures: all.flatMap(measuresOf),
    ratios: [toBare, ratio(WEIR_2, BARE), toFastify, ratio(WEIR_2, FASTIFY)],
    goals: [
      {
        what: 'requests/s, Weir with 1 process over bare uWebSockets.js:',
        value: spreadOf(toBare.values).median,
        unit: '',
        atLeast: 0.45,
      },
      {
        what: 'requests/s, Weir with 1 process over Fastify with 2:',
        value: spreadOf(toFastify.values).median,
        unit: '',
        atLeast: 5,
      },
      { what: `p99 at ${CONNECTIONS} connections:`, value: median(WEIR_1, 'loaded', 'p99Ms'), unit: 'ms', below: 60 },
      {
        what: 'memory of a process under load:',
        value: median(WEIR_1, 'loaded', 'residentMb'),
        unit: 'MB',
        below: 200,
      },
      { what: 'p50 at 1 connection:', value: median(WEIR_1, 'alone', 'p50Ms'), unit: 'ms', below: 3 },
    ],
    notes: [
      'Load generator (wrk, one thread, closed loop), Postgres and contestants share the cores.',
      `Rows committed, compared with the 202 responses: ${all
        .filter(({ contestant }) => contestant.table !== null)
        .map(rowsText)
        .join('; ')}.`,
      'Memory is VmRSS, the highest sample of any serving process in a window; the memory of Postgres is not in it.',
    ],
    faults: all.flatMap(faultsOf),
  };
}

function spreadText(windows: readonly Window[], key: keyof Window): string {
  return formatSpread(windows.map((window) => window[key] as number));
}

function measuresOf({ contestant: { name, table }, loaded, alone }: Series): Measure[] {
  const values = (windows: readonly Window[], key: keyof Window) => windows.map((window) => window[key] as number);
  return [
    { name: `${name}: rate`, unit: 'requests/s', values: values(loaded, 'requestsPerSecond') },
    { name: `${name}: p50`, unit: 'ms', values: values(loaded, 'p50Ms') },
    { name: `${name}: p99`, unit: 'ms', values: values(loaded, 'p99Ms') },
    { name: `${name}: resident`, unit: 'MB', values: values(loaded, 'residentMb') },
    { name: `${name}: answers`, unit: '2xx', values: values(loaded, 'answers2xx') },
    ...(table === null ? [] : [{ name: `${name}: rows`, unit: 'rows', values: values(loaded, 'rows') }]),
    { name: `${name}, 1 connection: rate`, unit: 'requests/s', values: values(alone, 'requestsPerSecond') },
    { name: `${name}, 1 connection: p50`, unit: 'ms', values: values(alone, 'p50Ms') },
    { name: `${name}, 1 connection: p99`, unit: 'ms', values: values(alone, 'p99Ms') },
  ];
}

function rowsText({ contestant, loaded, alone }: Series): string {
  const windows = [...loaded, ...alone];
  const sum = (key: 'rows' | 'answers2xx') => windows.reduce((total, window) => total + window[key]!, 0);
  return `${contestant.name}: ${sum('rows').toLocaleString('en-GB')} for ${sum('answers2xx').toLocaleString('en-GB')}`;
}

/** More rows than answers are valid: requests in flight when wrk exits are still committed, at most one per connection. */
function faultsOf({ contestant: { name }, loaded, alone }: Series): string[] {
  return [...loaded.map((w) => [w, CONNECTIONS] as const), ...alone.map((w) => [w, 1] as const)].flatMap(
    ([{ answersOther, answers2xx, socketErrors, rows }, connections]) => [
      ...(answers2xx === 0 ? [`${name} gave no response`] : []),
      ...(answersOther > 0 ? [`${name} gave ${answersOther} responses that were not 2xx`] : []),
      ...(socketErrors > 0 ? [`${name} had ${socketErrors} socket errors or timeouts`] : []),
      ...(rows !== null && rows < answers2xx ? [`${name} answered ${answers2xx} but committed ${rows}`] : []),
      ...(rows !== null && rows > answers2xx + connections
        ? [`${name} committed ${rows} for ${answers2xx} responses and ${connections} connections`]
        : []),
    ],
  );
}
