/** Removes what tables count by step of time, once it is older than that step is kept. */
import type { Database } from './pool.ts';

/** Rows that one statement deletes. */
const ROWS_MAX = 10_000;

/**
 * Deletes old rows of a table with `step` (seconds), `at` and an index of both, a few at a time, oldest first. Without the order, or with
 * several steps in a statement, Postgres expects to delete a tenth of the table and reads all of it: 7 to 34 s for 22,000,000 rows.
 * @param keptHours by step @param stopping true: returns before the next statement
 */
export async function deleteOldSteps(
  { query }: Pick<Database, 'query'>,
  table: 'history' | 'latency',
  keptHours: Readonly<Record<number, number>>,
  stopping: () => boolean = () => false,
): Promise<void> {
  for (const [step, hours] of Object.entries(keptHours)) {
    let deleted = ROWS_MAX;
    while (deleted === ROWS_MAX && !stopping()) {
      const rows = await query({
        text: `
          delete from ${table} where ctid = any (array(
            select ctid from ${table} where step = $1 and at < now() - make_interval(hours => $2) order by at limit ${ROWS_MAX}))
          returning 1`,
        values: [step, hours],
      });
      deleted = rows.length;
    }
  }
}
