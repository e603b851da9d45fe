/**
 * The free bytes of the disks that Weir writes to. A child process reads them: statfs of a mount that hangs keeps a thread of libuv for
 * good.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Settings } from '../../base/settings/read.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { every } from '../../base/time/every.ts';
import type { DiskPlace, DiskState } from '../../model/machines.ts';

const READ_EVERY_MS = 30_000;
const READ_TIMEOUT_MS = 5_000;
/** The forecast uses one sample every ten minutes, of the last day. */
const KEPT_EVERY_MS = 600_000;
const KEPT_MAX = 144;
const FORECAST_FROM_MS = 3_600_000;

interface Sample {
  atMs: number;
  disk: string;
  free: number;
}

/** Null: the disk cannot be read. */
type Read = { disk: string; free: number } | null;

function diskPaths({ DATA_DIR, INGEST_SPOOL_DIR, ARCHIVE_DIR, database }: Settings): Map<DiskPlace, string> {
  const paths: [DiskPlace, string | undefined][] = [
    ['data', DATA_DIR],
    ['spool', INGEST_SPOOL_DIR],
    ['archive', ARCHIVE_DIR],
    ['postgres', database.kind === 'embedded' ? join(DATA_DIR, 'postgres') : undefined],
  ];
  return new Map(paths.flatMap(([place, path]) => (path === undefined ? [] : [[place, path]])));
}

export class Disks {
  readonly #settings: () => Settings;
  readonly #read: (path: string) => Promise<Read>;
  /** Oldest first; the last sample is the current one. */
  readonly #samples = new Map<DiskPlace, Sample[]>();
  readonly #reading = new Set<DiskPlace>();

  /** @param read never resolves if the mount hangs */
  constructor(settings: () => Settings, read = readFree) {
    this.#settings = settings;
    this.#read = read;
  }

  /** Reads until the returned function is called. */
  start(): () => Promise<void> {
    return every(READ_EVERY_MS, async () => this.look(performance.now()), 0);
  }

  /** Starts to read each disk whose last read has ended. Nothing waits for the result. */
  look(nowMs: number): void {
    for (const [place, path] of diskPaths(this.#settings())) {
      if (this.#reading.has(place)) {
        // The last read hangs, so the earlier values do not count.
        this.#samples.delete(place);
        continue;
      }
      this.#reading.add(place);
      void this.#read(path).then((found) => {
        this.#reading.delete(place);
        if (found === null) this.#samples.delete(place);
        else this.#keep(place, { atMs: nowMs, ...found });
      });
    }
  }

  get states(): DiskState[] {
    return [...this.#samples].map(([place, samples]) => {
      const { disk, free } = samples.at(-1)!;
      return { place, file_system: disk, free_bytes: free, full_in_seconds: forecast(samples) };
    });
  }

  family() {
    const values = this.states.map(({ place, free_bytes }) => ({ labels: { place }, value: free_bytes }));
    return metricFamily('weir_disk_free_bytes', values);
  }

  #keep(place: DiskPlace, sample: Sample): void {
    const samples = this.#samples.get(place) ?? [];
    const before = samples.at(-2);
    if (before !== undefined && sample.atMs - before.atMs < KEPT_EVERY_MS) samples.pop();
    this.#samples.set(place, [...samples.slice(-KEPT_MAX), sample]);
  }
}

/** Seconds until the disk is full if it keeps filling at that rate; null: it does not fill, or too little of the past is known. */
function forecast(samples: readonly Sample[]): number | null {
  const [first, last] = [samples[0]!, samples.at(-1)!];
  const [ms, filled] = [last.atMs - first.atMs, first.free - last.free];
  return ms < FORECAST_FROM_MS || filled <= 0 ? null : Math.round((last.free / filled) * (ms / 1000));
}

/** By `stat` of coreutils: id of the file system, blocks for ordinary users, and their size. */
function readFree(path: string): Promise<Read> {
  const bounds = { timeout: READ_TIMEOUT_MS, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    execFile('stat', ['--file-system', '--format=%i %a %S', path], bounds, (error, stdout) => {
      const [disk = '', blocks, bytes] = stdout.trim().split(' ');
      resolve(error === null ? { disk, free: Number(blocks) * Number(bytes) } : null);
    });
  });
}
