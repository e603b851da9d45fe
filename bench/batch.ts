/**
 * Scenario `batch`: events stored per second with a hundred events per request, compared with one event per request.
 *
 *     each round:  100 a request | 1 a request     same number of connections, same webhook
 *     each turn:   warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted
 */

import { join } from 'node:path';
import { benchBody, emptyTable, signedRequest } from '../server/cli/bench/ground.ts';
import { settledRows } from './lib/database.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';
import { requireWrk, runWrk, type WrkWindow, writeScript } from './lib/wrk.ts';

const LINE_BYTES = 1024;
const LINES = 100;
/** At most 6,400 events in flight, below QUEUE_EVENTS_MAX. */
const CONNECTIONS = 64;
const WARM_UP_SECONDS = 1;
const BATCH = `${LINES} events a request`;
const SINGLE = '1 event a request';

export const batch: Scenario = {
  name: 'batch',
  summary: 'events stored a second, 100 lines of 1 KiB a request beside one event a request',
  defaults: { rounds: 5, seconds: 4 },
  run,
};

interface Window extends WrkWindow {
  events: number;
  eventsPerSecond: number;
}

interface Series {
  name: string;
  events: number;
  url: string;
  script: string;
  windows: Window[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { database, directory, secret, weir } = await openWeir(context);
  const lines = Array.from({ length: LINES }, () => benchBody(LINE_BYTES));
  const series = (name: string, url: string, bodies: string[]): Series => {
    const script = join(directory, `${bodies.length}.lua`);
    writeScript(script, signedRequest(secret, bodies.join('\n')));
    return { name, events: bodies.length, url, script, windows: [] };
  };
  const all = [series(BATCH, `${weir.url}/batch`, lines), series(SINGLE, weir.url, lines.slice(0, 1))];

  async function measure({ url, script, events }: Series): Promise<Window> {
    const load = (seconds: number) => runWrk({ url, script, connections: CONNECTIONS, seconds }, context.signal);
    await load(WARM_UP_SECONDS);
    await settledRows(database, 'events');
    await emptyTable(database, 'events');
    const window = await load(context.seconds);
    return {
      ...window,
      events: await settledRows(database, 'events'),
      eventsPerSecond: window.requestsPerSecond * events,
    };
  }

  for (let round = 1; round <= context.rounds; round++)
    for (const each of all) {
      const window = await measure(each);
      each.windows.push(window);
      context.say(
        `round ${round} of ${context.rounds}: ${each.name}: ${formatNumber(window.eventsPerSecond)} events/s, ` +
          `p99 ${formatNumber(window.p99Ms)} ms`,
      );
    }
  return summarise(all);
}

function summarise(all: readonly Series[]): Outcome {
  const values = ({ windows }: Series, key: keyof Window) => windows.map((window) => window[key]);
  const [of, to] = all as [Series, Series];
  const ratio = {
    of: of.name,
    to: to.name,
    values: ratioByRound(values(of, 'eventsPerSecond'), values(to, 'eventsPerSecond')),
  };
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, 'events/s', 'p50 ms of a request', 'p99 ms of a request'],
        rows: all.map((series) => [
          series.name,
          ...(['eventsPerSecond', 'p50Ms', 'p99Ms'] as const).map((key) => formatSpread(values(series, key))),
        ]),
      },
    ],
    measures: all.flatMap((series) => [
      { name: `${series.name}: rate`, unit: 'events/s', values: values(series, 'eventsPerSecond') },
      { name: `${series.name}: p50`, unit: 'ms', values: values(series, 'p50Ms') },
      { name: `${series.name}: p99`, unit: 'ms', values: values(series, 'p99Ms') },
    ]),
    ratios: [ratio],
    goals: [
      {
        what: `events/s, ${of.name} over ${to.name}:`,
        value: spreadOf(ratio.values).median,
        unit: '',
        atLeast: 3,
      },
    ],
    notes: [
      'Weir with 1 process. Load generator (wrk, one thread, closed loop), Weir and Postgres share the cores.',
      'One signature over the whole body; every committed event was counted after its window.',
    ],
    faults: all.flatMap((series) => series.windows.flatMap((window) => faultsOf(series, window))),
  };
}

function faultsOf(
  { name, events: each }: Series,
  { answersOther, answers2xx, socketErrors, events }: Window,
): string[] {
  return [
    ...(answers2xx === 0 ? [`${name}: there was no response`] : []),
    ...(answersOther > 0 ? [`${name}: ${answersOther} responses were not 2xx`] : []),
    ...(socketErrors > 0 ? [`${name}: ${socketErrors} socket errors or timeouts`] : []),
    ...(events < answers2xx * each ? [`${name}: ${events} events for ${answers2xx} responses`] : []),
    ...(events % each > 0 ? [`${name}: ${events} events are not a whole number of requests`] : []),
  ];
}
