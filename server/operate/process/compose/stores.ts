/** Where a process stores events: a store for each cell, and the spool for what cannot be committed. */
import { cellLabels } from '../../../base/telemetry/metric-table.ts';
import { HOUR_MS } from '../../../base/time/durations.ts';
import { CellStores, EventStore } from '../../../receive/ingest/cell-stores.ts';
import { CommitHealth } from '../../../receive/ingest/commit-health.ts';
import type { QueueLimits } from '../../../receive/ingest/group-commit.ts';
import { SPOOL_AFTER_MS, SpooledStore } from '../../../receive/ingest/spooled-store.ts';
import { isFull, realDisk } from '../../../receive/spool/disk.ts';
import { SpoolWriter } from '../../../receive/spool/writer.ts';
import type { Cell } from '../../../store/cells/cell.ts';
import { type CommitFailure, probeCommit } from '../../../store/commit-probe.ts';
import { copyOnNode } from '../../../store/queries/cells/citus.ts';
import { PartitionRepair } from '../../../store/retention/partitions.ts';
import type { Base } from '../base.ts';

/** Builds the stores. @param clampMs moves a time to one at which the events table has a partition. */
export function composeStores(base: Base, clampMs: (ms: number) => number) {
  const { settings, spoolFolder, log, metrics, observe, cells } = base;
  const limits = { queueEventsMax: settings.QUEUE_EVENTS_MAX, commitEventsMax: settings.COMMIT_EVENTS_MAX };
  const repairs = new Set<PartitionRepair>();
  const healths = new WeakMap<Cell, CommitHealth>();
  const healthOf = (cell: Cell) => {
    const known = healths.get(cell);
    if (known !== undefined) return known;
    const repair = new PartitionRepair(cell.tables, {
      made: (partitions) => log('partitions_created', { partitions, newest: partitions.at(-1) }),
      failed: (error) => log('partitions_failed', { reason: error.message }),
    });
    repairs.add(repair);
    const health = new CommitHealth({
      probe: () => probeCommit(cell.database, clampMs(Date.now())),
      onPartitionMissing: () => repair.begin(),
      observer: observe.store(cell.number),
      nowMs: () => performance.now(),
    });
    healths.set(cell, health);
    return health;
  };
  const openStore = (cell: Cell) => {
    const observer = healthOf(cell).listening(observe.store(cell.number));
    return new EventStore({
      conninfo: cell.conninfo,
      ...limits,
      commitTimeoutMs:
        spoolFolder === undefined ? settings.COMMIT_TIMEOUT_MS : Math.min(settings.COMMIT_TIMEOUT_MS, SPOOL_AFTER_MS),
      spools: spoolFolder !== undefined,
      database: cell.database,
      cell: cell.number,
      copySql: cell.address.node === null ? undefined : copyOnNode(cell.number, cell.address.node),
      retentionDays: settings.RETENTION_DAYS,
      observer: {
        ...observer,
        connection: (up, reason) => {
          if (cell.number === 0) observer.connection(up, reason);
          else if (!up) cell.connectionLost(reason);
        },
        refused: (rows, sqlState, message) => {
          observer.refused(rows, sqlState, message);
          cell.eventRefused(sqlState);
        },
      },
    });
  };
  const health = healthOf(cells.numbered(0));
  const events = new CellStores(cells, openStore);
  const spool = composeSpool(base, events, limits);

  const spooling = (cell: number) => spool?.store.queuedIn(cell) ?? 0;
  metrics.gauges('weir_queue_events', () =>
    events.queues().map(({ cell, queued }) => ({ labels: cellLabels(cell), value: queued + spooling(cell) })),
  );
  const fill = (longest: number, cell: number) => Math.max(longest, spooling(cell)) / settings.QUEUE_EVENTS_MAX;
  metrics.gauges(
    'weir_queue_fill_ratio',
    () => events.queues().map(({ cell, longest }) => ({ labels: cellLabels(cell), value: fill(longest, cell) })),
    'max',
  );
  const isUp = (cell: Cell) =>
    (cell.number === 0 ? events.available : cell.away === null) && !(healths.get(cell)?.failing ?? false);
  metrics.gauges('weir_database_up', () =>
    cells.all().map((cell) => ({ labels: cellLabels(cell.number), value: Number(isUp(cell)) })),
  );

  return {
    events: spool?.store ?? events,
    /** Null: there is no INGEST_SPOOL_DIR. */
    spool,
    /** Whether a connection of home is up, and one of another cell. */
    available: () => events.available,
    othersAvailable: () => events.othersAvailable,
    /** Why an event of home that came now would not be committed; null: it would be. Resolves within a second. */
    commitFailure: async (): Promise<CommitFailure | null> =>
      events.available ? health.failure() : { sqlState: null, reason: 'no connection' },
    /** Cells were added, changed or removed. */
    cellsChanged: () => events.forget(),
    /** Connects to home. */
    start: () => events.start(),
    close: async () => {
      events.close();
      await Promise.all([spool?.store.close(), ...[...repairs].map((repair) => repair.close())]);
    },
  };
}

/** The spool of a process: a writer for each cell, opened at its first event. Null: there is no INGEST_SPOOL_DIR. */
function composeSpool(
  { settings, cells, spoolFolder: folder, log, observe }: Base,
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
