/** The primary's side of the spool: it owns the installation's folder, drains it while the database answers, and measures it. */

import { setTimeout as delay } from 'node:timers/promises';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { backoffMs } from '../../base/time/backoff.ts';
import { HOUR_MS } from '../../base/time/durations.ts';
import { cellOfFile, drainOf } from '../../receive/spool/cell-target.ts';
import { emptySpool, type SpoolContents, SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import { type Drain, waitingFiles } from '../../receive/spool/drain.ts';
import { claimFolder } from '../../receive/spool/folder.ts';
import { addCounts, type DrainCounts, type DrainTotals, noTotals } from '../../receive/spool/store.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import type { MetricsSnapshot, StartOrder } from './messages.ts';
import { removeSavedWebhooks, SavedWebhooks } from './saved-webhooks.ts';

interface SpoolParts {
  settings: () => Settings;
  database: Database;
  cells: Cells;
  keys: SecretsKeys;
  log: Log;
  owner: { uid: number; gid: number } | null;
}

export interface PrimarySpool {
  /** The members of a process's start order that concern the spool. */
  order(): Pick<StartOrder, 'spoolFolder' | 'savedWebhooks'>;
  webhooksChanged(): void;
  families(): Promise<MetricsSnapshot>;
  /** The folder of this installation; null when it has no spool. */
  folder: string | null;
  contents(): Promise<SpoolContents>;
  drain(): void;
  /** Ends the drain after its transaction in progress, and releases the folder. */
  stop(): Promise<void>;
}

/** Claims the folder; without INGEST_SPOOL_DIR there is no spool. Throws SpoolError. */
export async function openSpool({ settings, database, cells, keys, log, owner }: SpoolParts): Promise<PrimarySpool> {
  const { INGEST_SPOOL_DIR, DATA_DIR } = settings();
  if (INGEST_SPOOL_DIR === undefined) {
    removeSavedWebhooks(DATA_DIR);
    return {
      order: () => ({}),
      webhooksChanged() {},
      families: async () => spoolFamilies(emptySpool, noTotals(), 0),
      folder: null,
      contents: async () => emptySpool,
      drain() {},
      stop: async () => {},
    };
  }
  const { folder, lock } = await claimFolder(INGEST_SPOOL_DIR, DATA_DIR, owner);
  const saved = new SavedWebhooks({
    dataDir: DATA_DIR,
    keys,
    database,
    ageMaxMs: () => settings().INGEST_SPOOL_HOURS_MAX * HOUR_MS,
    nowMs: Date.now,
    onFailed: (error) => log('webhooks_not_saved', { reason: error.message }),
  });
  const reader = new SpoolReader(realDisk, folder);
  const contents = () => reader.read().catch(() => emptySpool);
  const drain = new SpoolDrain({ folder, cells, retentionDays: () => settings().RETENTION_DAYS, log });
  return {
    order() {
      const savedWebhooks = saved.read();
      return { spoolFolder: folder, ...(savedWebhooks === null ? {} : { savedWebhooks }) };
    },
    webhooksChanged: () => saved.save(),
    families: async () => spoolFamilies(await contents(), drain.total, Date.now()),
    folder,
    contents,
    drain: () => drain.start(),
    stop: async () => {
      await Promise.all([drain.stop(), saved.close()]);
      await lock.release();
    },
  };
}

function spoolFamilies(contents: SpoolContents, counts: DrainTotals, nowMs: number): MetricsSnapshot {
  const { bytes, events, oldestMs, damaged, refused } = contents;
  const outcomes = {
    stored: counts.stored,
    duplicate: counts.duplicates,
    known: counts.known,
    refused: counts.refused,
  };
  const oldest = oldestMs === null ? 0 : Math.max(0, nowMs - oldestMs) / 1000;
  return [
    metricFamily(
      'weir_spool_events_drained_total',
      Object.entries(outcomes).map(([outcome, value]) => ({ labels: { outcome }, value })),
    ),
    metricFamily('weir_spool_webhook_deleted_total', [{ labels: {}, value: counts.webhookDeleted }]),
    metricFamily('weir_spool_bytes', [{ labels: {}, value: bytes }]),
    metricFamily('weir_spool_events', [{ labels: {}, value: events }]),
    metricFamily('weir_spool_oldest_seconds', [{ labels: {}, value: oldest }]),
    metricFamily('weir_spool_files_kept', [
      { labels: { state: 'damaged' }, value: damaged },
      { labels: { state: 'refused' }, value: refused },
    ]),
  ];
}

interface SpoolDrainParts {
  folder: string;
  cells: Cells;
  retentionDays: () => number;
  log: Log;
}

/** How often the folder is read, and the pauses while a cell does not answer. */
const CHECK_EVERY_MS = 1_000;
const RETRY = { firstMs: 200, maxMs: 5_000 };
/** A database that hangs keeps the last transaction no longer than this. */
const STOP_MS = 3_000;

interface Loop {
  drain: Drain;
  close: () => void;
  ended: Promise<void>;
}

/** Drains the files of each cell by a loop of their own, so that a cell that is away holds up no other. */
export class SpoolDrain {
  readonly #parts: SpoolDrainParts;
  /** What was drained, over all cells. */
  readonly total = noTotals();
  /** By the number of the cell: one that gets another connection string waits for the end of the loop before. */
  readonly #loops = new Map<number, Loop>();
  readonly #stopping = new AbortController();
  #watching = Promise.resolve();

  constructor(parts: SpoolDrainParts) {
    this.#parts = parts;
  }

  start(): void {
    this.#watching = this.#watchFolder();
  }

  /** Resolves after the transactions in progress. */
  async stop(): Promise<void> {
    this.#stopping.abort();
    await this.#watching;
    const loops = [...this.#loops.values()];
    for (const { drain } of loops) drain.stop();
    const ended = Promise.all(loops.map((loop) => loop.ended));
    await Promise.race([ended, delay(STOP_MS, null, { ref: false })]);
    for (const { close } of loops) close();
    await ended;
  }

  async #watchFolder(): Promise<void> {
    const { cells, folder } = this.#parts;
    const { signal } = this.#stopping;
    while (!signal.aborted) {
      try {
        const files = await waitingFiles(realDisk, folder);
        // A cell that was added since is not taken for one that was removed.
        if (files.some(({ cell }) => !cells.known || cells.find(cell) === undefined)) await cells.changed();
        for (const cell of new Set(files.map((file) => cellOfFile(cells, file))))
          if (!this.#loops.has(cell.number)) this.#begin(cell);
      } catch {
        // The folder cannot be read, or home does not answer: it is read again.
      }
      await delay(CHECK_EVERY_MS, null, { signal }).catch(() => {});
    }
  }

  #begin(cell: Cell): void {
    const { cells, folder, retentionDays, log } = this.#parts;
    const counts = noTotals();
    const observer = {
      committed: (more: DrainCounts) => {
        addCounts(counts, more);
        addCounts(this.total, more);
      },
      refused: (sqlState: string, reason: string) => {
        counts.refused++;
        this.total.refused++;
        log('spool_event_refused', { sql_state: sqlState, reason });
      },
      damaged: (file: string) => log('spool_damaged', { file }),
    };
    const { drain, close } = drainOf({ cells, folder, retentionDays, observer }, cell);
    const ended = this.#run(cell, drain, counts).finally(() => {
      close();
      this.#loops.delete(cell.number);
    });
    this.#loops.set(cell.number, { drain, close, ended });
  }

  /** Drains until no file of the cell is left, or the cell is not used any more. */
  async #run(cell: Cell, drain: Drain, counts: DrainTotals): Promise<void> {
    const { cells, log } = this.#parts;
    const { signal } = this.#stopping;
    const cellField = cell.number === 0 ? {} : { cell: cell.number };
    const startedMs = performance.now();
    for (let failures = 0; !signal.aborted && cells.find(cell.number) === cell; failures++) {
      const outcome = await drain
        .run()
        .catch((error: Error) => ({ kind: 'unavailable' as const, reason: error.message }));
      if (outcome.kind !== 'unavailable') break;
      if (failures === 0) log('spool_waiting', { ...cellField, reason: outcome.reason });
      await delay(backoffMs(failures, RETRY, Math.random()), null, { signal }).catch(() => {});
    }
    const { stored: events, duplicates, known, webhookDeleted: webhook_deleted, refused } = counts;
    const fields = { events, duplicates, known, webhook_deleted, refused };
    if (Object.values(fields).some((count) => count > 0))
      log('spool_drained', { ...cellField, ...fields, took_ms: Math.round(performance.now() - startedMs) });
  }
}
