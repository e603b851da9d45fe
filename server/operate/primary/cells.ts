/** What the primary does for the cells: it migrates them, copies configuration that a change could not bring to them, and raises their marks. */
import { setTimeout as delay } from 'node:timers/promises';
import { every } from '../../base/net/every.ts';
import type { Log } from '../../base/telemetry/log.ts';
import type { Cells } from '../../store/cells/cells.ts';
import { copyToAll } from '../../store/cells/copy.ts';
import { finishMoves } from '../../store/cells/move.ts';
import { readCellWork } from '../../store/queries/cell-copies.ts';
import { noteMark, raiseMark } from '../../store/queries/cells.ts';

const EVERY_MS = 1_000;
/** A cell that is restored from a backup is noticed if the backup is older than this. */
const MARK_EVERY_MS = 10_000;

/** How long a start waits for the answers of cells. */
const ANSWERS_MS = 3_000;

/** Before the processes use the cells: migrates those that answer, so that a new release refuses none of their requests. Never rejects. */
export async function prepareCells(cells: Cells, log: Log): Promise<void> {
  await cells.load().catch(() => {});
  await Promise.race([Promise.all(cells.all().map((cell) => cell.ask())), delay(ANSWERS_MS, null, { ref: false })]);
  await migrateCells(cells, log);
}

/**
 * Migrates the cells whose schema is of an earlier release, side by side. One that does not answer is migrated when it does, before it is
 * used. Never rejects.
 */
export async function migrateCells(cells: Cells, log: Log): Promise<void> {
  const outdated = cells.all().filter((cell) => cell.outdated);
  await Promise.all(
    outdated.map(async (cell) => {
      const applied = await cell.migrate().catch(() => []);
      for (const migration of applied) log('migrated', { migration, cell: cell.number });
    }),
  );
}

/** Works until the returned function is called. */
export function runCells(cells: Cells, log: Log): () => Promise<void> {
  const [home] = cells.all();
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
  const stops = [every(EVERY_MS, keepUp), every(EVERY_MS, () => migrateCells(cells, log)), every(MARK_EVERY_MS, mark)];
  return async () => {
    await Promise.all(stops.map((stop) => stop()));
  };
}
