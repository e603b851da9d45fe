/** Brings the schemas of the cells to this release. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Cell } from './cell.ts';
import type { Cells } from './cells.ts';

/** How long to wait for the answers of cells. */
const ANSWERS_MS = 3_000;

/**
 * Reads the cells, and migrates those that answer, so that processes of this release refuse none of their requests. Rejects when home does
 * not answer.
 * @param onApplied called for each applied migration
 */
export async function migrateAnsweringCells(
  cells: Cells,
  onApplied: (migration: string, cell: Cell) => void,
): Promise<void> {
  await cells.load();
  await Promise.race([Promise.all(cells.all().map((cell) => cell.check())), delay(ANSWERS_MS, null, { ref: false })]);
  await migrateCells(cells, onApplied);
}

/**
 * Migrates the cells that were found outdated, side by side. One that does not answer any more is migrated when it does, before it is used.
 * Never rejects.
 */
export async function migrateCells(cells: Cells, onApplied: (migration: string, cell: Cell) => void): Promise<void> {
  await Promise.all(
    cells.all().map(async (cell) => {
      if (!cell.outdated) return;
      for (const migration of await cell.migrate().catch(() => [])) onApplied(migration, cell);
    }),
  );
}
