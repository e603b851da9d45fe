/** The primary's side of the spool: it owns the installation's folder, drains it while the database answers, and measures it. */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../base/net/backoff.ts';
import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { CellTarget } from '../../receive/spool/cell-target.ts';
import { emptySpool, type SpoolContents, SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import { Drain } from '../../receive/spool/drain.ts';
import { claimFolder } from '../../receive/spool/folder.ts';
import { addCounts, type DrainTotals, noTotals, SpoolStore } from '../../receive/spool/store.ts';
import type { Cell } from '../../store/cells/cell.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/pool.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import type { MetricsSnapshot, StartOrder } from './messages.ts';
import { removeSavedWebhooks, SavedWebhooks } from './saved-webhooks.ts';

interface SpoolParts {
  /** Current settings. */
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

/** How often an empty spool is looked at, and the pauses while the database does not answer. */
const LOOK_EVERY_MS = 1_000;
const RETRY = { firstMs: 200, maxMs: 5_000 };
/** A database that hangs keeps the last transaction no longer than this. */
const STOP_MS = 3_000;
const HOUR_MS = 3_600_000;

/** Claims the folder; without INGEST_SPOOL_DIR there is no spool. Throws SpoolError. */
export async function openSpool({ settings, database, cells, keys, log, owner }: SpoolParts): Promise<PrimarySpool> {
  const { INGEST_SPOOL_DIR, DATA_DIR } = settings();
  const total = noTotals();
  if (INGEST_SPOOL_DIR === undefined) {
    removeSavedWebhooks(DATA_DIR);
    return {
      order: () => ({}),
      webhooksChanged() {},
      families: async () => spoolFamilies(emptySpool, total, 0),
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
  const retentionDays = () => settings().RETENTION_DAYS;
  const target = new CellTarget<Cell>({
    cellOf: (id) => cells.of(id),
    open: (cell) => new SpoolStore(cell.conninfo, cell.database, retentionDays),
  });
  const drain = new Drain({
    disk: realDisk,
    folder,
    target,
    observer: {
      committed: (counts) => addCounts(total, counts),
      refused(sqlState, reason) {
        total.refused++;
        log('spool_event_refused', { sql_state: sqlState, reason });
      },
      damaged: (file) => log('spool_damaged', { file }),
    },
  });
  const stopping = new AbortController();
  const run = async () => {
    let before = { ...total };
    let startedMs = performance.now();
    for (let failures = 0; !stopping.signal.aborted; ) {
      const outcome = await drain
        .run()
        .catch((error: Error) => ({ kind: 'unavailable' as const, reason: error.message }));
      if (outcome.kind === 'unavailable') {
        if (failures++ === 0) log('spool_waiting', { reason: outcome.reason });
      } else {
        const fields = differences(total, before);
        if (fields !== null) log('spool_drained', { ...fields, took_ms: Math.round(performance.now() - startedMs) });
        before = { ...total };
        failures = 0;
        target.close();
      }
      const pauseMs = failures === 0 ? LOOK_EVERY_MS : backoffMs(failures - 1, RETRY, Math.random());
      await delay(pauseMs, null, { signal: stopping.signal }).catch(() => {});
      if (failures === 0) startedMs = performance.now();
    }
  };
  let running = Promise.resolve();
  return {
    order() {
      const savedWebhooks = saved.read();
      return { spoolFolder: folder, ...(savedWebhooks === null ? {} : { savedWebhooks }) };
    },
    webhooksChanged: () => saved.save(),
    families: async () => spoolFamilies(await contents(), total, Date.now()),
    folder,
    contents,
    drain() {
      running = run();
    },
    stop: async () => {
      stopping.abort();
      drain.stop();
      await Promise.race([running, delay(STOP_MS, null, { ref: false })]);
      target.close();
      await Promise.all([running, saved.close()]);
      target.close();
      await lock.release();
    },
  };
}

/** Null when no file waits. */
function differences(total: DrainTotals, before: DrainTotals): Record<string, number> | null {
  const { stored, duplicates, known, webhookDeleted, refused } = total;
  const fields = {
    events: stored - before.stored,
    duplicates: duplicates - before.duplicates,
    known: known - before.known,
    webhook_deleted: webhookDeleted - before.webhookDeleted,
    refused: refused - before.refused,
  };
  return Object.values(fields).some((count) => count > 0) ? fields : null;
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
