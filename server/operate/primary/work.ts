/** What the primary does with a prepared database: listen for changes, drain the spool, maintain, run jobs. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Log } from '../../base/telemetry/log.ts';
import { every } from '../../base/time/every.ts';
import { runJobs } from '../../deliver/replay/run.ts';
import type { Cell } from '../../store/cells/cell.ts';
import { type CellMigrations, type Cells, migrateCells } from '../../store/cells/cells.ts';
import { copyToAll, noteDifferentAgents } from '../../store/cells/copy.ts';
import { finishMoves } from '../../store/cells/move.ts';
import { type Database, openDatabase } from '../../store/connect/pool.ts';
import { fillWalPool, freeWalBytes } from '../../store/embedded/settings.ts';
import { noteMark, raiseMark } from '../../store/queries/cells/cells.ts';
import { readCellWork } from '../../store/queries/cells/copies.ts';
import { runMaintenance } from './maintenance.ts';
import type { Serving, Shared } from './serving.ts';
import type { PrimarySpool } from './spool.ts';

/** One for the lock, one for the batches. */
const JOB_CONNECTIONS = 2;
/** Before this no WAL files are made: Weir may run for a moment only. */
const WAL_POOL_AFTER_MS = 10_000;

/** Starts the work, and pushes the steps that stop it to `undo`. */
export function startWork(
  { state, conninfo, database, cells, log, undo }: Shared,
  serving: Serving,
  spool: PrimarySpool,
): void {
  const { listener, page } = serving;
  listener.start();
  undo.push(() => listener.stop());
  spool.drain();
  undo.push(
    runMaintenance({
      database,
      cells,
      log,
      settings: () => state.settings,
      onHorizon: serving.setHorizon,
      onLastLeases: (agentIds) => page.lastLeasesEnded(agentIds),
      onUnhandled: (deliveries) => page.count('weir_deliveries_unhandled_total', deliveries),
      onMaintained: () => {
        state.maintainedMs = Date.now();
      },
    }),
  );
  if (state.settings.database.kind === 'embedded') undo.push(keepWalPool(database, state.settings.DATA_DIR, log));
  const jobsDatabase = openDatabase(conninfo, { connectionsMax: JOB_CONNECTIONS, applicationName: 'weir-jobs' });
  undo.push(() => jobsDatabase.close());
  undo.push(runCells(cells, log, () => state.settings.RETENTION_DAYS));
  undo.push(
    runJobs({
      database: cells.over(jobsDatabase),
      log,
      perSecond: () => state.settings.REPLAY_DELIVERIES_PER_SECOND,
      onReplayed: (events) => page.count('weir_events_replayed_total', events),
    }),
  );
}

/** Fills the pool of WAL files once. The returned function stops it. */
function keepWalPool(database: Database, dataDir: string, log: Log): () => Promise<void> {
  const stopping = new AbortController();
  const fill = async () => {
    await delay(WAL_POOL_AFTER_MS, undefined, stopping);
    const files = await fillWalPool(database, await freeWalBytes(dataDir), stopping.signal);
    if (files > 0) log('wal_files_made', { files });
  };
  const filling = fill().catch((error: Error) => {
    if (!stopping.signal.aborted) log('wal_files_failed', { reason: error.message });
  });
  return async () => {
    stopping.abort();
    await filling;
  };
}

const EVERY_MS = 1_000;
/** Interval of the marks. That a cell was restored from a backup younger than this is not noticed. */
const MARK_EVERY_MS = 10_000;

/** Options with which the migrations of cells are logged. @param waitsForLocks see CellMigrations */
export function loggedMigrations(log: Log, waitsForLocks: boolean, stopping: AbortSignal): CellMigrations {
  return {
    onApplied: (migration, { number }) => log('migrated', { migration, cell: number }),
    onBlocked: (waitsFor, { number }) => log('migration_blocked', { waits_for: waitsFor, cell: number }),
    waitsForLocks,
    stopping,
  };
}

/**
 * Migrates the cells, copies configuration that a change could not bring to them, and raises their marks, until the returned function is
 * called.
 * @param retentionDays RETENTION_DAYS
 */
export function runCells(cells: Cells, log: Log, retentionDays: () => number): () => Promise<void> {
  const [home] = cells.all();
  const stopping = new AbortController();
  const migrations = loggedMigrations(log, true, stopping.signal);
  const mark = async () => {
    const reached = cells.all().filter(({ number, away }) => number !== 0 && away === null);
    const raise = async (cell: Cell) => {
      // For alerts: the primary stores no events, so it would not notice that a cell refuses them.
      await cell.probe();
      await noteMark(home!.database, cell.number, await raiseMark(cell.database));
    };
    // A missed mark does no harm: the next one replaces it.
    await Promise.all(reached.map((cell) => raise(cell).catch(() => {})));
  };
  // During an upgrade, a primary of the earlier release copies agents without the columns that it does not know. So each cell's agents are
  // compared once with those at home.
  const compared = new Set<number>();
  const keepUp = async () => {
    if (cells.all().length === 1) return;
    try {
      const work = await readCellWork(home!.database);
      if (work.cells.length > 0) await copyToAll(cells, work.cells);
      if (work.moves) await finishMoves(cells, retentionDays());
      for (const cell of cells.all().slice(1))
        if (cell.away === null && !compared.has(cell.number))
          await noteDifferentAgents(cell, home!.database)
            .then(() => compared.add(cell.number))
            // Compared again in a second: the cell may not be migrated yet.
            .catch(() => {});
    } catch {
      // Tried again in a second.
    }
  };
  const stops = [
    every(EVERY_MS, keepUp),
    every(EVERY_MS, () => migrateCells(cells, migrations)),
    every(MARK_EVERY_MS, mark),
  ];
  return async () => {
    // A migration that is blocked would wait for as long as the lock is held.
    stopping.abort();
    await Promise.all(stops.map((stop) => stop()));
  };
}
