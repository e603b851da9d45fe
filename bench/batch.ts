/**
 * Scenario `batch`: events stored per second with a hundred events per request, compared with one event per request and with COPY
 * alone: one process that copies rows of the same size over as many connections as Weir, with nothing received and nothing verified.
 *
 *     each round:  100 a request | 1 a request | COPY     same number of connections, same webhook
 *     each turn:   warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted
 */

import { join } from 'node:path';
import { benchBody, emptyTable, signedRequest } from '../server/operate/load/environment.ts';
import { parts } from '../server/operate/load/processor.ts';
import { CopyConnection } from '../server/store/copy/connection.ts';
import { COPY_CONNECTIONS } from '../server/store/copy/link.ts';
import { copyCommit, randomRows, withNewIds } from './lib/event-rows.ts';
import type { BenchContext, Outcome, Scenario } from './lib/outcome.ts';
import { formatNumber, formatSpread, ratioByRound, spreadOf } from './lib/stats.ts';
import { openWeir } from './lib/weir.ts';
import { faultsOf, measureWindow, totalUs, type Window } from './lib/window.ts';
import { requireWrk, writeScript } from './lib/wrk.ts';

const LINE_BYTES = 1024;
const LINES = 100;
/** At most 6,400 events in flight, below QUEUE_EVENTS_MAX. */
const CONNECTIONS = 64;
/** Rows in a COPY without Weir: as many as Weir takes with this load. */
const COPY_ROWS = 1_000;
const COPY = 'COPY alone';
const BATCH = `${LINES} events a request`;
const SINGLE = '1 event a request';

export const batch: Scenario = {
  name: 'batch',
  summary: 'events stored a second, 100 lines of 1 KiB a request beside one event a request and COPY alone',
  defaults: { rounds: 5, seconds: 4 },
  run,
};

interface Series {
  name: string;
  events: number;
  url: string;
  script: string;
  windows: Window[];
}

async function run(context: BenchContext): Promise<Outcome> {
  requireWrk();
  const { conninfo, database, directory, secret, weir } = await openWeir(context);
  const lines = Array.from({ length: LINES }, () => benchBody(LINE_BYTES));
  const series = (name: string, url: string, bodies: string[]): Series => {
    const script = join(directory, `${bodies.length}.lua`);
    writeScript(script, signedRequest(secret, bodies.join('\n')));
    return { name, events: bodies.length, url, script, windows: [] };
  };
  const all = [series(BATCH, `${weir.url}/batch`, lines), series(SINGLE, weir.url, lines.slice(0, 1))];

  const copies = await Promise.all(
    Array.from({ length: COPY_CONNECTIONS }, () => CopyConnection.connect(conninfo, () => {})),
  );
  context.undo(() => copies.forEach((copy) => void copy.close()));
  const rows = randomRows(COPY_ROWS, LINE_BYTES);

  /** Rows committed a second over all connections. */
  async function copyAlone(): Promise<number> {
    await emptyTable(database, 'events');
    const startMs = performance.now();
    const endMs = startMs + context.seconds * 1000;
    const commits = await Promise.all(
      copies.map(async (copy) => {
        const commit = copyCommit(copy);
        let count = 0;
        for (; performance.now() < endMs; count++) await commit(withNewIds(rows));
        return count;
      }),
    );
    return (commits.reduce((sum, count) => sum + count, 0) * COPY_ROWS * 1000) / (performance.now() - startMs);
  }

  const copied: number[] = [];
  for (let round = 1; round <= context.rounds; round++) {
    for (const each of all) {
      const { url, script } = each;
      const order = { url, script, processes: weir.processes, table: 'events', connections: CONNECTIONS };
      const window = await measureWindow(context, database, order);
      each.windows.push(window);
      context.say(
        `round ${round} of ${context.rounds}: ${each.name}: ${formatNumber(eventsPerSecond(each, window))} events/s, ` +
          `p99 ${formatNumber(window.p99Ms)} ms`,
      );
    }
    copied.push(await copyAlone());
    context.say(`round ${round} of ${context.rounds}: ${COPY}: ${formatNumber(copied.at(-1)!)} rows/s`);
  }
  return summarise(all, copied);
}

function eventsPerSecond({ events }: Series, { requestsPerSecond }: Window): number {
  return requestsPerSecond * events;
}

function summarise(all: readonly Series[], copied: readonly number[]): Outcome {
  const values = ({ windows }: Series, value: (window: Window) => number) => windows.map(value);
  const rates = (series: Series) => values(series, (window) => eventsPerSecond(series, window));
  const usPerEvent = (series: Series, us: (window: Window) => number) =>
    values(series, (window) => us(window) / series.events);
  const [many, single] = all as [Series, Series];
  const toSingle = { of: many.name, to: single.name, values: ratioByRound(rates(many), rates(single)) };
  const toCopy = { of: many.name, to: COPY, values: ratioByRound(rates(many), copied) };
  return {
    tables: [
      {
        header: [`${CONNECTIONS} connections`, 'events/s', 'p50 ms of a request', 'p99 ms of a request'],
        rows: [
          ...all.map((series) => [
            series.name,
            formatSpread(rates(series)),
            formatSpread(values(series, ({ p50Ms }) => p50Ms)),
            formatSpread(values(series, ({ p99Ms }) => p99Ms)),
          ]),
          [COPY, formatSpread(copied), '', ''],
        ],
      },
      {
        header: ['processor time per event, us', 'event loop', 'signatures', 'other threads', 'Postgres', 'all'],
        rows: all.map((series) => [
          series.name,
          ...parts.map((part) => formatNumber(spreadOf(usPerEvent(series, ({ us }) => us[part])).median)),
          formatSpread(usPerEvent(series, totalUs)),
        ]),
      },
    ],
    measures: [
      ...all.flatMap((series) => [
        { name: `${series.name}: rate`, unit: 'events/s', values: rates(series) },
        { name: `${series.name}: p50`, unit: 'ms', values: values(series, ({ p50Ms }) => p50Ms) },
        { name: `${series.name}: p99`, unit: 'ms', values: values(series, ({ p99Ms }) => p99Ms) },
        ...parts.map((part) => ({
          name: `${series.name}: ${part}`,
          unit: 'us per event',
          values: usPerEvent(series, ({ us }) => us[part]),
        })),
      ]),
      { name: `${COPY}: rate`, unit: 'rows/s', values: [...copied] },
    ],
    ratios: [toSingle, toCopy],
    goals: [
      {
        what: `events/s, ${many.name} over ${single.name}:`,
        value: spreadOf(toSingle.values).median,
        unit: '',
        atLeast: 3,
      },
      { what: `events/s, ${many.name} over ${COPY}:`, value: spreadOf(toCopy.values).median, unit: '', atLeast: 0.9 },
    ],
    notes: [
      'Weir with 1 process. Load generator (wrk, one thread, closed loop), Weir and Postgres share the cores.',
      'One signature over the whole body; every committed event was counted after its window.',
      `${COPY}: ${COPY_CONNECTIONS} connections of this process, ${COPY_ROWS} rows a commit; the cores are used by it and Postgres only.`,
    ],
    faults: all.flatMap((series) => series.windows.flatMap((window) => faultsIn(series, window))),
  };
}

function faultsIn({ name, events: each }: Series, window: Window): string[] {
  const { rows } = window;
  return [
    ...faultsOf(name, window, each),
    ...(rows! % each > 0 ? [`${name}: ${rows} events are not a whole number of requests`] : []),
  ];
}
