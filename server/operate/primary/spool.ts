/** The primary's side of the spool: it owns the installation's folder, drains it while the database answers, and measures it. */

import type { Settings } from '../../base/settings/read.ts';
import type { Log } from '../../base/telemetry/log.ts';
import { metricFamily } from '../../base/telemetry/metric-table.ts';
import { HOUR_MS } from '../../base/time/durations.ts';
import { emptySpool, type SpoolContents, SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import { claimFolder } from '../../receive/spool/folder.ts';
import { type DrainTotals, noTotals } from '../../receive/spool/store.ts';
import type { Cells } from '../../store/cells/cells.ts';
import type { Database } from '../../store/connect/pool.ts';
import type { SecretsKeys } from '../../store/secrets/keys.ts';
import type { MetricsSnapshot, StartOrder } from './messages.ts';
import { removeSavedWebhooks, SavedWebhooks } from './saved-webhooks.ts';
import { SpoolDrain } from './spool-drain.ts';

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
