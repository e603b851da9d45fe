/**
 * Scenario `receive`, the main figure: signed requests over loopback, each verified and committed before its 202.
 *
 *     each round:  for each load:  Weir 1 | Weir 2 | least | bare
 *     each turn:   warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted
 *
 * The main load is 1 KiB, 5 header fields and 256 connections; each other load differs from it in one respect. On shared cores the
 * rate follows the processor time per request, so that is reported beside it, by part.
 */

import { join } from 'node:path';
import { benchBody, signedRequest } from '../server/operate/load/environment.ts';
import { parts } from '../server/operate/load/processor.ts';
import { BARE, type Contestant, LEAST, startContestants, WEIR_1, WEIR_2 } from './lib/contestants.ts';
import { openBenchDatabase } from './lib/database.ts';
import {
  atLeast,
  type BenchContext,
  type BenchOutcome,
  below,
  inRounds,
  type Scenario,
  tabulate,
} from './lib/outcome.ts';
import { formatNumber, ratioByRound } from './lib/stats.ts';
import { type LoadWindow, loadFigures, measureLoad, ownUs, totalUs, windowFaults } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

interface Load {
  name: string;
  connections: number;
  bodyBytes: number;
  /** Header fields; wrk adds ADDED_FIELDS of them. */
  fields: number;
}

const KIB = 1024;
const MAIN: Load = { name: '256 connections', connections: 256, bodyBytes: KIB, fields: 5 };
const ALONE: Load = { ...MAIN, name: '1 connection', connections: 1 };
const LOADS: readonly Load[] = [
  MAIN,
  ALONE,
  { ...MAIN, name: '64 connections', connections: 64 },
  { ...MAIN, name: '1,000 connections', connections: 1000 },
  { ...MAIN, name: '256 B', bodyBytes: 256 },
  { ...MAIN, name: '16 KiB', bodyBytes: 16 * KIB },
  // 256 of these at once exceed the memory that one client may hold: Weir refuses some of them.
  { ...MAIN, name: '256 KiB, 16 connections', bodyBytes: 256 * KIB, connections: 16 },
  { ...MAIN, name: '20 header fields', fields: 20 },
];
/** Host and Content-Length. */
const ADDED_FIELDS = 2;

export const receive: Scenario = {
  name: 'receive',
  summary: 'signed requests, verified and committed (fsync on) before the 202: rate, latency, processor time by part',
  defaults: { rounds: 5, seconds: 3 },
  run,
};

/** The windows of one contestant under one load, one per round. */
interface Series {
  /** That of the contestant, and of the load unless it is the main one. */
  name: string;
  contestant: Contestant;
  load: Load;
  windows: LoadWindow[];
}

async function run(context: BenchContext): Promise<BenchOutcome> {
  requireWrk();
  const bench = await openBenchDatabase(context);
  const contestants = await startContestants(context, bench);
  const all: Series[] = LOADS.flatMap((load) => {
    writeScript(scriptOf(load), withFields(signedRequest(bench.secret, benchBody(load.bodyBytes)), load.fields));
    const suffix = load === MAIN ? '' : `, ${load.name}`;
    return contestants.map((contestant) => ({ name: contestant.name + suffix, contestant, load, windows: [] }));
  });

  function scriptOf(load: Load): string {
    return join(bench.directory, `${LOADS.indexOf(load)}.lua`);
  }

  await inRounds(context, all, async ({ name, contestant, load, windows }) => {
    const order = { ...contestant, script: scriptOf(load), connections: load.connections };
    const window = await measureLoad(context, bench.database, order);
    windows.push(window);
    return (
      `${name}: ${formatNumber(window.requestsPerSecond)} requests/s, p99 ${formatNumber(window.p99Ms)} ms, ` +
      `${formatNumber(ownUs(window.us))} us and ${formatNumber(window.us.postgres)} of Postgres`
    );
  });
  return summarise(all);
}

/** Names as long as those that GitHub, a proxy and a tracer add. */
function withFields<Request extends { headers: Record<string, string> }>(request: Request, fields: number): Request {
  const headers = { ...request.headers };
  for (let i = Object.keys(headers).length + ADDED_FIELDS; i < fields; i++)
    headers[`X-Sender-Hook-Field-${i}`] = `value-${i}-044aadd-8f2e`;
  return { ...request, headers };
}

function summarise(all: readonly Series[]): BenchOutcome {
  const windows = (name: string, load: Load) =>
    all.find((one) => one.contestant.name === name && one.load === load)!.windows;
  const ratio = (of: string, to: string, value: (window: LoadWindow) => number, what: string, load = MAIN) => ({
    of: `${of}, ${what}${load === MAIN ? '' : `, ${load.name}`}`,
    to,
    values: ratioByRound(windows(of, load).map(value), windows(to, load).map(value)),
  });
  const own = ({ us }: LoadWindow) => ownUs(us);
  const rates = [WEIR_1, WEIR_2, LEAST].map((one) =>
    ratio(one, BARE, ({ requestsPerSecond }) => requestsPerSecond, 'requests/s'),
  );
  const costs = [
    ...[WEIR_1, WEIR_2, LEAST].flatMap((one) => [
      ratio(one, BARE, own, CPU),
      ratio(one, BARE, totalUs, ALL),
      ...LOADS.filter((load) => load !== MAIN).map((load) => ratio(one, BARE, own, CPU, load)),
    ]),
    ...[WEIR_1, WEIR_2].flatMap((weir) => [
      ratio(weir, LEAST, own, CPU),
      ratio(weir, LEAST, ({ us }) => us.eventLoop, LOOP),
    ]),
  ];
  const residentMb = windows(WEIR_1, MAIN).map((window) => window.residentMb);
  const aloneMs = windows(WEIR_1, ALONE).map((window) => window.p50Ms);
  const timesOf = (of: string, to: string) =>
    [...rates, ...costs].find((one) => one.of === of && one.to === to)!.values;
  const tableOf = (load: Load) => {
    const shown = all.filter((one) => one.load === load).map((one) => ({ ...one, name: one.contestant.name }));
    return tabulate(load.name, shown, loadFigures).table;
  };
  const titles = { eventLoop: 'event loop', signatures: 'signatures', other: 'other threads', postgres: 'Postgres' };
  const { table: byPart } = tabulate('processor time per request, us', all, [
    ...parts.map((part) => [titles[part], null, (one: Series) => one.windows.map(({ us }) => us[part])] as const),
    ['all', null, (one) => one.windows.map(totalUs)],
  ]);
  return {
    tables: [tableOf(MAIN), tableOf(ALONE), byPart],
    measures: tabulate('', all, loadFigures).measures,
    ratios: [...rates, ...costs],
    goals: [
      ...[WEIR_1, WEIR_2].flatMap((weir) => [
        ...[CPU, LOOP].map((what) =>
          below(`${what} of ${weir} over that of the least program:`, timesOf(`${weir}, ${what}`, LEAST), 1.15),
        ),
        below(`${CPU} of ${weir} over that of the bare answer:`, timesOf(`${weir}, ${CPU}`, BARE), 3),
      ]),
      atLeast(`requests/s, ${WEIR_1}, over the bare answer:`, timesOf(`${WEIR_1}, requests/s`, BARE), 0.33),
      atLeast(`requests/s, ${WEIR_2}, over the bare answer:`, timesOf(`${WEIR_2}, requests/s`, BARE), 0.38),
      below('memory of a process under load:', residentMb, 160, 'MB'),
      below('p50 at 1 connection:', aloneMs, 3, 'ms'),
    ],
    notes: [
      `Rows without a load are those of ${MAIN.name}, 1 KiB and 5 header fields.`,
      'Load generator (wrk, one thread, closed loop), Postgres and contestants share the cores.',
      'Processor time is user and system time of all threads; the ratio with Postgres compares with the bare answer, which has none.',
      'Memory is VmRSS, the highest sample of any serving process in a window; the memory of Postgres is not in it.',
    ],
    // More rows than answers are valid: requests in flight when wrk exits are still committed, at most one per connection.
    faults: all.flatMap(({ name, load, windows }) => windowFaults(name, windows, load.connections)),
  };
}

const CPU = 'CPU';
const ALL = 'CPU with Postgres';
const LOOP = 'CPU of the event loop';
