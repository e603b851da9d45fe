/** Maintenance that changes many rows, in statements of limited length, so that it hardly slows down ingest and claims. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Queries } from '../connect/pool.ts';

/**
 * Calls `part` until it resolves with false, because nothing is left. Pauses after each part for as long as the part took, so that maintenance
 * takes at most half of a core of Postgres. Resolves with false if it was stopped before the end.
 * @param stopping true: returns after the part in progress.
 */
export async function inParts(part: () => Promise<boolean>, stopping: () => boolean = () => false): Promise<boolean> {
  for (;;) {
    const startedMs = performance.now();
    if (!(await part())) return true;
    await delay(performance.now() - startedMs);
    if (stopping()) return false;
  }
}

const ROWS_MAX = 10_000;

/**
 * Deletes old rows of a table with `step` (seconds), `at` and an index of both, a few at a time, oldest first. Without the order, or with
 * several steps in a statement, Postgres expects to delete a tenth of the table and reads all of it: 7 to 34 s for 22,000,000 rows.
 *
 * Each part starts at the time that the one before reached: index entries of deleted rows stay until vacuum, and would be read again.
 * @param keptHours by step
 * @param stopping see inParts
 */
export async function deleteOldSteps(
  { query }: Queries,
  table: 'history' | 'latency',
  keptHours: Readonly<Record<number, number>>,
  stopping?: () => boolean,
): Promise<void> {
  for (const [step, hours] of Object.entries(keptHours)) {
    let reached = '-infinity';
    const deletePart = async () => {
      const [part] = await query<{ rows: number; reached: string }>({
        text: `
          with deleted as (
            delete from ${table} where ctid = any (array(
              select ctid from ${table} where step = $1 and at >= $3::timestamptz and at < now() - make_interval(hours => $2)
              order by at limit ${ROWS_MAX}))
            returning at
          )
          select count(*)::int as rows, max(at)::text as reached from deleted`,
        values: [step, hours, reached],
      });
      reached = part!.reached;
      return part!.rows === ROWS_MAX;
    };
    if (!(await inParts(deletePart, stopping))) return;
  }
}
