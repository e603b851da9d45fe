/** The spool of a process: a writer for each cell, opened at its first event. */
import { HOUR_MS } from '../../../base/time/durations.ts';
import type { CellStores } from '../../../receive/ingest/cell-stores.ts';
import type { QueueLimits } from '../../../receive/ingest/commit-queue.ts';
import { SpooledStore } from '../../../receive/ingest/spooled-store.ts';
import { isFull, realDisk } from '../../../receive/spool/disk.ts';
import { SpoolWriter } from '../../../receive/spool/writer.ts';
import type { Base } from '../base.ts';

/** Null: there is no INGEST_SPOOL_DIR. */
export function composeSpool(
  {
    settings,
    cells,
    spoolFolder: folder,
    log,
    observe,
  }: Pick<Base, 'settings' | 'cells' | 'spoolFolder' | 'log' | 'observe'>,
  events: CellStores,
  limits: QueueLimits,
) {
  if (folder === undefined) return null;
  const onFailed = (error: Error) => log('spool_failed', { reason: error.message });
  const open = (cell: number) =>
    new SpoolWriter({
      disk: realDisk,
      folder,
      cell,
      bytesMax: settings.INGEST_SPOOL_BYTES_MAX,
      ageMaxMs: settings.INGEST_SPOOL_HOURS_MAX * HOUR_MS,
      writers: () => settings.WORKERS * cells.all().length,
      nowMs: Date.now,
      onFailed,
    });
  const home = open(0);
  return {
    store: new SpooledStore({
      events,
      writer: (cell) => (cell === 0 ? home : open(cell)),
      limits,
      onSpooled: observe.spooled,
    }),
    /** Whether an event of home would be spooled if its commit failed. */
    takes: async () => (await home.refusal()) === null,
    /** The last known result of `takes`. */
    takesNow: () => {
      void home.refusal();
      return home.lastRefusal === null;
    },
    /** Rejects when it cannot be written. A full disk passes: Postgres may accept commits, and the drain frees the disk. */
    check: () =>
      home.check().catch((error: Error) => {
        if (isFull(error)) return onFailed(error);
        throw new Error(`INGEST_SPOOL_DIR cannot be used by the user of the processes: ${error.message}`);
      }),
  };
}
