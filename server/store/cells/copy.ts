/**
 * Copies configuration from home to the cells: what their statements join, without secrets.
 *
 * Triggers at home note what changed for each cell, in the transaction of the change (cell_copies). A copy reads the present state of these
 * objects and makes the cell equal to it, so it may be repeated, and a change that is missed is copied with the next one. Copies to one
 * cell run one after the other, under a lock in the cell: an older state never follows a newer one.
 */
import { advisoryLocks, takeLock } from '../advisory-locks.ts';
import type { Database } from '../connect/pool.ts';
import {
  forgetCopies,
  noteEverything,
  readAgentsDigest,
  readCopies,
  readPendingCopies,
  writeCopies,
} from '../queries/cells/copies.ts';
import type { Cell } from './cell.ts';
import type { Cells } from './cells.ts';

/** Objects copied in one transaction. */
const AT_A_TIME = 500;

/** Copies all that a cell does not have yet. Rejects when home or the cell does not answer. */
export async function copyTo({ number, database }: Pick<Cell, 'number' | 'database'>, home: Database): Promise<void> {
  for (;;) {
    if ((await readPendingCopies(home.query, number, 1)).length === 0) return;
    const pending = await database.transaction(async (query) => {
      await takeLock(query, advisoryLocks.copies);
      const found = await readPendingCopies(home.query, number, AT_A_TIME);
      await writeCopies(query, await readCopies(home.query, found));
      return found;
    });
    await forgetCopies(home.query, number, pending);
    if (pending.length < AT_A_TIME) return;
  }
}

/** Copies to every cell that answers. Never rejects: what is not copied is copied later. @param only numbers of cells; absent: all */
export async function copyToAll(cells: Pick<Cells, 'all'>, only?: readonly number[]): Promise<void> {
  const [home, ...others] = cells.all();
  const reached = others.filter(({ number, away }) => away === null && (only?.includes(number) ?? true));
  await Promise.all(reached.map((cell) => copyTo(cell, home!.database).catch(() => {})));
}

/** Returns whether a cell has other agents than home. If so, notes that the cell needs all of them. Rejects as copyTo. */
export async function noteDifferentAgents(
  { number, database }: Pick<Cell, 'number' | 'database'>,
  home: Database,
): Promise<boolean> {
  const isDifferent = (await readAgentsDigest(database)) !== (await readAgentsDigest(home));
  if (isDifferent) await noteEverything(home.query, number, ['agent']);
  return isDifferent;
}
