/** What the primary does for the cells: it migrates them, copies configuration that a change could not bring to them, and raises their marks. */

import type { Log } from '../../base/telemetry/log.ts';
import { every } from '../../base/time/every.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { copyToAll } from '../../store/cells/copy.ts';
import { type CellMigrations, migrateCells } from '../../store/cells/migrate.ts';
import { finishMoves } from '../../store/cells/move.ts';
import { noteMark, raiseMark } from '../../store/queries/cells/cells.ts';
import { readCellWork } from '../../store/queries/cells/copies.ts';

const EVERY_MS = 1_000;
/** A cell that is restored from a backup is noticed if the backup is older than this. */
const MARK_EVERY_MS = 10_000;

/** Migrations of cells that are logged. @param waitsForLocks see CellMigrations */
export function loggedMigrations(log: Log, waitsForLocks: boolean, stopping: AbortSignal): CellMigrations {
  return {
    onApplied: (migration, { number }) => log('migrated', { migration, cell: number }),
    onBlocked: (waitsFor, { number }) => log('migration_blocked', { waits_for: waitsFor, cell: number }),
    waitsForLocks,
    stopping,
  };
}

/** Works until the returned function is called. */
export function runCells(cells: Cells, log: Log): () => Promise<void> {
  const [home] = cells.all();
  const stopping = new AbortController();
  const migrations = loggedMigrations(log, true, stopping.signal);
  const mark = async () => {
    for (const cell of cells.all().slice(1)) {
      if (cell.away !== null || cell.state === 'adding') continue;
      // For the alerts: no event is stored by this process.
      await cell.probe();
      await raiseMark(cell.database)
        .then((raised) => noteMark(home!.database, cell.number, raised))
        // The next mark is as good.
        .catch(() => {});
    }
  };
  const keepUp = async () => {
    if (cells.all().length === 1) return;
    try {
      const work = await readCellWork(home!.database);
      if (work.cells.length > 0) await copyToAll(cells, work.cells);
      if (work.moves) await finishMoves(cells);
    } catch {
      // What does not answer now is finished when it does.
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
