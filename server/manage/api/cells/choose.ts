/** Chooses the cell of a new webhook, and of one that leaves a drained cell. */
import type { Cells } from '../../../store/cells/cells.ts';
import { readDatabaseSize } from '../../../store/queries/server-state.ts';

/** Returns the number of the active cell that has the fewest bytes; home counts as one. Without other cells: home. */
export async function chooseCell(cells: Cells): Promise<number> {
  if (!cells.known) await cells.load();
  const fit = cells.all().filter(({ isFit }) => isFit);
  if (fit.length <= 1) return fit[0]?.number ?? 0;
  const sized = await Promise.all(
    fit.map(async ({ number, database }) => ({
      number,
      bytes: (await readDatabaseSize(database).catch(() => null))?.bytes ?? Number.POSITIVE_INFINITY,
    })),
  );
  return sized.reduce((one, other) => (other.bytes < one.bytes ? other : one)).number;
}
