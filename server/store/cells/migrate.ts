/** Brings the schemas of the cells to this release. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Cell } from './cell.ts';
import type { Cells } from './cells.ts';

/** What a migration of cells reports, and what ends it. */
export interface CellMigrations {
  onApplied: (migration: string, cell: Cell) => void;
  /** Called after each try that got a lock too late. @param waitsFor what it waited for */
  onBlocked: (waitsFor: string, cell: Cell) => void;
  /** False: a cell whose migration waits for a lock is left to a later call. */
  waitsForLocks: boolean;
  /** Absent: the process ends without it. */
  stopping?: AbortSignal;
}

/** How long to wait for the answers of cells. */
const ANSWERS_MS = 3_000;

/**
 * Reads the cells, and migrates those that answer, so that processes of this release refuse none of their requests. Rejects when home does
 * not answer.
 */
export async function migrateAnsweringCells(cells: Cells, migrations: CellMigrations): Promise<void> {
  await cells.load();
  await Promise.race([Promise.all(cells.all().map((cell) => cell.check())), delay(ANSWERS_MS, null, { ref: false })]);
  await migrateCells(cells, migrations);
}

/**
 * Migrates the cells that were found outdated, side by side. One that does not answer any more is migrated when it does, before it is used.
 * Never rejects.
 */
export async function migrateCells(
  cells: Cells,
  { onApplied, onBlocked, waitsForLocks, stopping }: CellMigrations,
): Promise<void> {
  await Promise.all(
    cells.all().map(async (cell) => {
      if (!cell.outdated) return;
      const leaving = new AbortController();
      const migrating = cell.migrate({
        onBlocked: (waitsFor) => {
          onBlocked(waitsFor, cell);
          if (!waitsForLocks) leaving.abort();
        },
        stopping: stopping === undefined ? leaving.signal : AbortSignal.any([stopping, leaving.signal]),
      });
      for (const migration of await migrating.catch(() => [])) onApplied(migration, cell);
    }),
  );
}
