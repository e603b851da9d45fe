/** Statements that Postgres ends because of a concurrent one. */
import { setTimeout as delay } from 'node:timers/promises';

const DEADLOCK = '40P01';
/** The statement waited for a row that was moved to another partition, or in a deadlock. */
const CONFLICTS: ReadonlySet<string | undefined> = new Set(['40001', DEADLOCK]);
/** Unique indexes at which one of two concurrent statements fails, see queries/claims/held.ts. */
const CONSTRAINTS: ReadonlySet<string | undefined> = new Set(['deliveries_begun']);
const CONFLICT_TRIES_MAX = 3;
/**
 * After a deadlock, before the first repeat; twice as long before the second. The session that the abort set free needs it to take its lock: a repeat at once
 * took the lock first on a busy machine, in the same deadlock, until no try was left (2 of 3 runs of its test at a load of 5).
 */
const PAUSE_MS = 50;

/** Repeats `work` when it rejects because of a concurrent statement. What it did was rolled back. */
export async function repeatConflicts<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      const { code, constraint } = error as { code?: string; constraint?: string };
      if (!(CONFLICTS.has(code) || CONSTRAINTS.has(constraint)) || tries === CONFLICT_TRIES_MAX) throw error;
      if (code === DEADLOCK) await delay(tries * PAUSE_MS);
    }
  }
}
