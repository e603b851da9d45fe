/** The primary's side of the spool: it owns the installation's folder, drains it while the database answers, and measures it. */
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { backoffMs, pause } from '../../base/time/backoff.ts';
import { HOUR_MS } from '../../base/time/durations.ts';
import { within } from '../../base/time/every.ts';
import { emptySpool, type SpoolContents, SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import { cellOfFile, type Drain, drainOf, waitingFiles } from '../../receive/spool/drain.ts';
import { claimFolder } from '../../receive/spool/folder.ts';
import { addCounts, type DrainCounts, type DrainTotals, noTotals } from '../../receive/spool/store.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import type { MetricsSnapshot, StartOrder } from './messages.ts';
import { removeSavedWebhooks, savedWebhooks } from './saved-webhooks.ts';

interface SpoolParts {
  settings: () => Settings;
  database: Database;
  cells: Cells;
  keys: SecretsKeys;
  log: Log;
  /** The user of the serving processes; null: the current one. */
  owner: { uid: number; gid: number } | null;
}

export interface PrimarySpool {
  /** The members of a process's start order that concern the spool. */
  order(): Pick<StartOrder, 'spoolFolder' | 'savedWebhooks'>;
  /** The copy of the webhooks may be outdated. */
  webhooksChanged(): void;
  families(): Promise<MetricsSnapshot>;
  /** The folder of this installation; null when it has no spool. */
  folder: string | null;
  /** Empty when the folder cannot be read, or this installation has no spool. */
  contents(): Promise<SpoolContents>;
  /** Starts draining. The schema must be that of this release. */
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
  const saved = savedWebhooks({
    dataDir: DATA_DIR,
    keys,
    database,
    ageMaxMs: () => settings().INGEST_SPOOL_HOURS_MAX * HOUR_MS,
    nowMs: Date.now,
    onFailed: (error) => log('webhooks_not_saved', { reason: error.message }),
  });
  const reader = new SpoolReader(realDisk, folder);
  const contents = () => reader.read().catch(() => emptySpool);
  const drain = spoolDrain({ folder, cells, retentionDays: () => settings().RETENTION_DAYS, log });
  return {
    order() {
      const rows = saved.read();
      return { spoolFolder: folder, ...(rows === null ? {} : { savedWebhooks: rows }) };
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
    metricFamily('weir_spool_webhook_deleted_total', counts.webhookDeleted),
    metricFamily('weir_spool_bytes', bytes),
    metricFamily('weir_spool_events', events),
    metricFamily('weir_spool_oldest_seconds', oldest),
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

/** Drains the files of each cell by a loop of their own, so that a cell that is away holds up no other. */
export function spoolDrain({ folder, cells, retentionDays, log }: SpoolDrainParts) {
  /** What was drained, over all cells. */
  const total = noTotals();
  /** By the number of the cell. A cell with a new connection string gets a loop when that for the old one has ended. */
  const loops = new Map<number, { drain: Drain; close: () => void; ended: Promise<void> }>();
  const stopping = new AbortController();
  const { signal } = stopping;
  let watching = Promise.resolve();

  async function watchFolder(): Promise<void> {
    while (!signal.aborted) {
      try {
        const files = await waitingFiles(realDisk, folder);
        // Without this, a cell that was added since would be taken for one that was removed.
        if (files.some(({ cell }) => !cells.known || cells.find(cell) === undefined)) await cells.load();
        for (const cell of new Set(files.map((file) => cellOfFile(cells, file))))
          if (!loops.has(cell.number)) begin(cell);
      } catch {
        // The folder cannot be read, or home does not answer: it is read again.
      }
      await pause(CHECK_EVERY_MS, signal);
    }
  }

  function begin(cell: Cell): void {
    const counts = noTotals();
    const observer = {
      committed: (more: DrainCounts) => {
        addCounts(counts, more);
        addCounts(total, more);
      },
      refused: (sqlState: string, reason: string) => {
        counts.refused++;
        total.refused++;
        log('spool_event_refused', { sql_state: sqlState, reason });
      },
      damaged: (file: string) => log('spool_damaged', { file }),
    };
    const { drain, close } = drainOf({ cells, folder, retentionDays, observer }, cell);
    const ended = run(cell, drain, counts).finally(() => {
      close();
      loops.delete(cell.number);
    });
    loops.set(cell.number, { drain, close, ended });
  }

  /** Drains until no file of the cell is left, or the cell is not used any more. */
  async function run(cell: Cell, drain: Drain, counts: DrainTotals): Promise<void> {
    const cellField = cell.number === 0 ? {} : { cell: cell.number };
    const startedMs = performance.now();
    for (let failures = 0; !signal.aborted && cells.find(cell.number) === cell; failures++) {
      const outcome = await drain
        .run()
        .catch((error: Error) => ({ kind: 'unavailable' as const, reason: error.message }));
      if (outcome.kind !== 'unavailable') break;
      if (failures === 0) log('spool_waiting', { ...cellField, reason: outcome.reason });
      await pause(backoffMs(failures, RETRY, Math.random()), signal);
    }
    const { stored: events, duplicates, known, webhookDeleted: webhook_deleted, refused } = counts;
    const fields = { events, duplicates, known, webhook_deleted, refused };
    if (Object.values(fields).some((count) => count > 0))
      log('spool_drained', { ...cellField, ...fields, took_ms: Math.round(performance.now() - startedMs) });
  }

  return {
    total,
    /** The schema must be that of this release. */
    start() {
      watching = watchFolder();
    },
    /** Resolves after the transactions in progress. */
    async stop() {
      stopping.abort();
      await watching;
      const open = [...loops.values()];
      for (const { drain } of open) drain.stop();
      const ended = Promise.all(open.map((loop) => loop.ended));
      await within(STOP_MS, ended);
      for (const { close } of open) close();
      await ended;
    },
  };
}
