/** One measured window of load on one contestant, from the same start as every other: warm server, empty table, after a checkpoint. */
import { watchResident } from '../../server/operate/load/child.ts';
import { emptyTable } from '../../server/operate/load/environment.ts';
import { type ProcessorTime, parts, readProcessor, timeBetween } from '../../server/operate/load/processor.ts';
import type { Database } from '../../server/store/connect/pool.ts';
import { postgresPids, settledRows } from './database.ts';
import type { BenchContext, Figure } from './outcome.ts';
import { runWrk, type WrkWindow } from './wrk.ts';

export interface LoadWindow extends WrkWindow {
  /** Highest resident memory of any serving process in the window. */
  residentMb: number;
  /** Rows committed in the window; null for a contestant that stores nothing. */
  rows: number | null;
  /** Processor time per answer in microseconds. */
  us: ProcessorTime;
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
  /** Null when the contestant stores nothing. */
  store: Store | null;
  script: string;
  connections: number;
}

const WARM_UP_SECONDS = 2;
const MB = 1e6;

/** Warm-up, rows settle, truncate, checkpoint, measured window, rows settle and are counted. */
export async function measureLoad(context: BenchContext, database: Database, order: Order): Promise<LoadWindow> {
  const { url, processes, store, script, connections } = order;
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

/** Tables that are emptied before a window; the first receives a row for each event. */
export function emptiedTables(database: Database, tables: readonly string[]): Store {
  return {
    pids: () => postgresPids(database),
    count: () => settledRows(database, tables[0]!),
    empty: () => emptyTable(database, tables.join(', ')),
  };
}

/** A table that keeps its rows. Counting millions of them would take longer than storing them, so those from now on are counted. */
export function keptTable(database: Database, table: string): Store {
  const fromMs = Date.now();
  return {
    pids: () => postgresPids(database),
    count: () => settledRows(database, table, fromMs),
    empty: async () => void (await database.query({ text: 'checkpoint' })),
  };
}

interface Measured {
  windows: readonly LoadWindow[];
}

const valuesOf =
  (of: (window: LoadWindow) => number) =>
  ({ windows }: Measured) =>
    windows.map(of);

/** The figures of a contestant and its windows: rate, latency, processor time by part, memory. */
export const loadFigures: readonly Figure<Measured>[] = [
  ['requests/s', ['rate', 'requests/s'], valuesOf(({ requestsPerSecond }) => requestsPerSecond)],
  ['p50 ms', ['p50', 'ms'], valuesOf(({ p50Ms }) => p50Ms)],
  ['p99 ms', ['p99', 'ms'], valuesOf(({ p99Ms }) => p99Ms)],
  ...parts.map((part) => [null, [part, 'us'], valuesOf(({ us }) => us[part])] as const),
  ['MB of a process', ['resident', 'MB'], valuesOf(({ residentMb }) => residentMb)],
];

/** Reasons why windows are invalid. @param surplusMax rows above the number of responses that are valid */
export function windowFaults(name: string, windows: readonly LoadWindow[], surplusMax = Infinity): string[] {
  return windows.flatMap(({ answersOther, answers2xx, socketErrors, rows }) => {
    const isLess = rows !== null && rows < answers2xx;
    const isMore = rows !== null && rows > answers2xx + surplusMax;
    return [
      ...(answers2xx === 0 ? [`${name}: there was no response`] : []),
      ...(answersOther > 0 ? [`${name}: ${answersOther} responses were not 2xx`] : []),
      ...(socketErrors > 0 ? [`${name}: ${socketErrors} socket errors or timeouts`] : []),
      ...(isLess || isMore ? [`${name}: ${rows} events for ${answers2xx} responses`] : []),
    ];
  });
}

/** Processor time of the contestant's own processes and threads. */
export function ownUs({ eventLoop, signatures, other }: Omit<ProcessorTime, 'postgres'>): number {
  return eventLoop + signatures + other;
}

/** Processor time, including that of Postgres. */
export function totalUs({ us }: Pick<LoadWindow, 'us'>): number {
  return ownUs(us) + us.postgres;
}
