/** Deadlocks, which Postgres resolves by ending one statement (SQLSTATE 40P01) after deadlock_timeout, one second by default. */

const DEADLOCK = '40P01';
const TRIES_MAX = 3;

/** Runs `work`, a single statement, and retries it on a deadlock. The retry is safe: a statement that Postgres ended had no effect. */
export async function retryDeadlock<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if ((error as { code?: string }).code !== DEADLOCK || tries === TRIES_MAX) throw error;
    }
  }
}
