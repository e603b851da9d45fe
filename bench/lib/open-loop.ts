/** One window at a constant arrival rate, with what Postgres did to its WAL in each part of it. */
import { readdir, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createHistogram, type RecordableHistogram } from 'node:perf_hooks';
import { setTimeout as delay } from 'node:timers/promises';
import { benchBody, requestBytes, signedRequest } from '../../server/operate/load/environment.ts';
import { openSenders } from '../../server/operate/load/window.ts';
import type { Database } from '../../server/store/connect/pool.ts';

export interface Percentiles {
  answers: number;
  p50Ms: number;
  p99Ms: number;
  p999Ms: number;
  maxMs: number;
}

/** Ten seconds. */
interface Slice extends Percentiles {
  newWalFiles: number;
  checkpoints: number;
}

export interface OpenLoopWindow extends Percentiles {
  perSecond: number;
  slices: Slice[];
  /** Answers other than 202 by status, and broken connections by error, warm-up included. */
  failures: Record<string, number>;
}

interface Order {
  /** Webhooks; they get the same rate, from a thread each. */
  urls: readonly string[];
  secret: string;
  perSecond: number;
  seconds: number;
  /** The server that stores the events. */
  database: Database;
}

const BODY_BYTES = 1024;
/** Connections of all threads. A request that finds none free waits, and that time counts. */
const CONNECTIONS = 510;
export const OPEN_LOOP_WARM_UP_SECONDS = 10;
/** As workers/sender.ts. */
const SLICE_MS = 10_000;

/** Sends at the rate, and measures a window after a warm-up. Latency counts from the time when a request was due. */
export async function measureOpenLoop(
  { urls, secret, perSecond, seconds, database }: Order,
  signal: AbortSignal,
): Promise<OpenLoopWindow> {
  const request = signedRequest(secret, benchBody(BODY_BYTES));
  const load = { connections: CONNECTIONS / urls.length, perSecond: perSecond / urls.length };
  const senders = openSenders(
    urls.map((url) => {
      const { port, pathname } = new URL(url);
      return { port: Number(port), request: requestBytes(Number(port), pathname, request), ...load };
    }),
  );
  try {
    await delay(OPEN_LOOP_WARM_UP_SECONDS * 1000, undefined, { signal });
    const wal = [await lookAtWal(database)];
    senders.measure();
    for (let leftMs = seconds * 1000; leftMs > 0; leftMs -= SLICE_MS) {
      await delay(Math.min(leftMs, SLICE_MS), undefined, { signal });
      wal.push(await lookAtWal(database));
    }
    const reports = await senders.stop();
    const known = new Set(wal[0]!.files);
    const slices = wal.slice(1).map(({ files, checkpoints }, i): Slice => {
      const newWalFiles = files.filter((file) => !known.has(file)).length;
      for (const file of files) known.add(file);
      const latencies = reports.map(({ slicesUs }) => slicesUs?.[i]);
      return { ...percentilesOf(latencies), newWalFiles, checkpoints: checkpoints - wal[i]!.checkpoints };
    });
    const failures: Record<string, number> = {};
    for (const { statuses, errors } of reports)
      for (const [name, times] of [...Object.entries(statuses), ...Object.entries(errors)])
        if (name !== '202') failures[name] = (failures[name] ?? 0) + times;
    const all = percentilesOf(reports.map(({ latenciesUs }) => latenciesUs));
    return { ...all, perSecond: all.answers / seconds, slices, failures };
  } finally {
    await senders.terminate();
  }
}

/** Inodes of the WAL files, and checkpoints until now. A file that is used again has another name and the same inode. */
async function lookAtWal(database: Database): Promise<{ files: number[]; checkpoints: number }> {
  const [row] = await database.query<{ directory: string; checkpoints: number }>({
    text: `select current_setting('data_directory') as directory, (checkpoints_timed + checkpoints_req)::int as checkpoints from pg_stat_bgwriter`,
  });
  const directory = join(row!.directory, 'pg_wal');
  const files: number[] = [];
  for (const name of await readdir(directory)) {
    // Postgres may rename or remove it at this moment.
    const file = /^[0-9A-F]{24}$/.test(name) ? await stat(join(directory, name)).catch(() => null) : null;
    if (file !== null) files.push(file.ino);
  }
  return { files, checkpoints: row!.checkpoints };
}

/** The percentiles of all histograms together. Undefined: the thread had no request in the slice. */
function percentilesOf(latenciesUs: readonly (RecordableHistogram | undefined)[]): Percentiles {
  const all = createHistogram({ lowest: 1, highest: 3_600_000_000, figures: 3 });
  for (const each of latenciesUs) if (each !== undefined) all.add(each);
  const ms = (share: number) => all.percentile(share) / 1000;
  return { answers: all.count, p50Ms: ms(50), p99Ms: ms(99), p999Ms: ms(99.9), maxMs: all.max / 1000 };
}
