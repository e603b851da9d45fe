/**
 * The free bytes of the disks that Weir writes to. Each is read in a child process: statfs of a mount that hangs would keep a thread of
 * libuv for good, and the primary has four.
 */
import { execFile } from 'node:child_process';
import { join } from 'node:path';
import type { Settings } from '../../base/settings/read.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { every } from '../../base/time/every.ts';

const READ_EVERY_MS = 30_000;
const READ_TIMEOUT_MS = 5_000;

/** The directories of these settings, by what is in them. */
function placesOf({ DATA_DIR, INGEST_SPOOL_DIR, ARCHIVE_DIR, database }: Settings): [place: string, path: string][] {
  const postgres = database.kind === 'embedded' ? join(DATA_DIR, 'postgres') : undefined;
  const paths = { data: DATA_DIR, spool: INGEST_SPOOL_DIR, archive: ARCHIVE_DIR, postgres };
  return Object.entries(paths).flatMap(([place, path]): [string, string][] =>
    path === undefined ? [] : [[place, path]],
  );
}

export class Disks {
  readonly #settings: () => Settings;
  readonly #read: (path: string) => Promise<number | null>;
  readonly #free = new Map<string, number>();
  readonly #reading = new Set<string>();

  /** @param read resolves with null for what cannot be read; never, if the mount hangs */
  constructor(settings: () => Settings, read = readFree) {
    this.#settings = settings;
    this.#read = read;
  }

  /** Reads until the returned function is called. */
  start(): () => Promise<void> {
    return every(READ_EVERY_MS, async () => this.look(), 0);
  }

  /** Starts to read the disks that have answered. Nothing waits for them, and a number that is not known any more is not shown. */
  look(): void {
    for (const [place, path] of placesOf(this.#settings())) {
      if (this.#reading.has(place)) {
        this.#free.delete(place);
        continue;
      }
      this.#reading.add(place);
      void this.#read(path).then((bytes) => {
        this.#reading.delete(place);
        if (bytes === null) this.#free.delete(place);
        else this.#free.set(place, bytes);
      });
    }
  }

  family() {
    return metricFamily(
      'weir_disk_free_bytes',
      [...this.#free].map(([place, value]) => ({ labels: { place }, value })),
    );
  }
}

/** By `stat` of coreutils: blocks for ordinary users, and their size. */
function readFree(path: string): Promise<number | null> {
  const bounds = { timeout: READ_TIMEOUT_MS, killSignal: 'SIGKILL' } as const;
  return new Promise((resolve) => {
    execFile('stat', ['--file-system', '--format=%a %S', path], bounds, (error, stdout) => {
      const [blocks, bytes] = stdout.trim().split(' ');
      resolve(error === null ? Number(blocks) * Number(bytes) : null);
    });
  });
}
