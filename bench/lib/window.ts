/** One measured window of load on one contestant, from the same start as every other: warm server, empty table, after a checkpoint. */
import { watchResident } from '../../server/operate/load/child.ts';
import { emptyTable } from '../../server/operate/load/environment.ts';
import { type Part, parts, readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { postgresPids, settledRows } from './database.ts';
import type { BenchContext, Measure } from './outcome.ts';
import { runWrk, type WrkWindow } from './wrk.ts';

export interface Window extends WrkWindow {
  /** Highest resident memory of any serving process in the window. */
  residentMb: number;
  /** Rows committed in the window; null for a contestant that stores nothing. */
  rows: number | null;
  /** Processor time per answer in microseconds. */
  us: Record<Part, number>;
}

/** Where a contestant stores what it received. */
export interface Store {
  /** Ids of its processes. */
  pids(): Promise<number[]>;
  /** Committed events or jobs, once requests in flight have ended. */
  count(): Promise<number>;
  empty(): Promise<void>;
}

/** The contestant and its load. */
interface Order {
  url: string;
  /** Ids of the serving processes. */
  processes: readonly number[];
  /** Table that receives the rows, counted at the end; null when the contestant stores nothing. */
  table: string | null;
  /** Replaces `table`. */
  store?: Store;
  /** False: the table keeps its rows. */
  empties?: boolean;
  /** Another table that is emptied before the window. */
  alsoEmptied?: string;
  script: string;
  connections: number;
}

const WARM_UP_SECONDS = 2;
const MB = 1e6;

/** Warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted. */
export async function measureWindow(context: BenchContext, database: Database, order: Order): Promise<Window> {
  const { url, processes, script, connections } = order;
  const store = order.store ?? tableOf(database, order);
  const send = (seconds: number) => runWrk({ url, script, connections, seconds }, context.signal);
  await send(WARM_UP_SECONDS);
  // Before the store is emptied, so that no request of the warm-up is committed afterwards.
  await store?.count();
  await (store === null ? database.query({ text: 'checkpoint' }) : store.empty());
  const from = (await store?.count()) ?? 0;
  const storePids = (await store?.pids()) ?? [];
  const before = readProcessor(processes, storePids);
  const { result, peakBytes } = await watchResident(processes, () => send(context.seconds));
  const rows = store === null ? null : (await store.count()) - from;
  // With the connections that were opened in the window.
  const pids = new Set([...storePids, ...((await store?.pids()) ?? [])]);
  const us = timeBetween(before, readProcessor(processes, [...pids]));
  for (const part of parts) us[part] /= result.answers2xx;
  return { ...result, residentMb: peakBytes / MB, rows, us };
}

function tableOf(database: Database, { table, empties = true, alsoEmptied }: Order): Store | null {
  if (table === null) return null;
  // Counting millions of kept rows would take longer than storing them.
  const fromMs = empties ? 0 : Date.now();
  return {
    pids: () => postgresPids(database),
    count: () => settledRows(database, table, fromMs),
    empty: async () => {
      if (empties) await emptyTable(database, alsoEmptied === undefined ? table : `${table}, ${alsoEmptied}`);
      else await database.query({ text: 'checkpoint' });
    },
  };
}

/** The measures of all windows of a contestant. */
export function measuresOf(name: string, windows: readonly Window[]): Measure[] {
  const measure = (what: string, unit: string, value: (window: Window) => number): Measure => ({
    name: `${name}: ${what}`,
    unit,
    values: windows.map(value),
  });
  return [
    measure('rate', 'requests/s', ({ requestsPerSecond }) => requestsPerSecond),
    measure('p50', 'ms', ({ p50Ms }) => p50Ms),
    measure('p99', 'ms', ({ p99Ms }) => p99Ms),
    ...parts.map((part) => measure(part, 'us', ({ us }) => us[part])),
    measure('resident', 'MB', ({ residentMb }) => residentMb),
  ];
}

/** Reasons why the window is invalid. @param eventsEach events in a request */
export function faultsOf(
  name: string,
  { answersOther, answers2xx, socketErrors, rows }: Window,
  eventsEach = 1,
): string[] {
  return [
    ...(answers2xx === 0 ? [`${name}: there was no response`] : []),
    ...(answersOther > 0 ? [`${name}: ${answersOther} responses were not 2xx`] : []),
    ...(socketErrors > 0 ? [`${name}: ${socketErrors} socket errors or timeouts`] : []),
    ...(rows! < answers2xx * eventsEach ? [`${name}: ${rows} events for ${answers2xx} responses`] : []),
  ];
}

/** Processor time of the contestant's own processes and threads per answer. */
export function ownUs({ us }: Window): number {
  return us.eventLoop + us.signatures + us.other;
}

/** Processor time per answer, including that of Postgres. */
export function totalUs(window: Window): number {
  return ownUs(window) + window.us.postgres;
}
