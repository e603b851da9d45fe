/** Statements that Postgres ends because of a concurrent one. */

/** The statement waited for a row that was moved to another partition, or in a deadlock. */
const CONFLICTS: ReadonlySet<string | undefined> = new Set(['40001', '40P01']);
const CONFLICT_TRIES_MAX = 3;

/** Repeats `work` when it rejects because of a concurrent statement. What it did was rolled back. */
export async function repeatConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if (!CONFLICTS.has((error as { code?: string }).code) || tries === CONFLICT_TRIES_MAX) throw error;
    }
  }
}
