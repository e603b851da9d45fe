/** Circles of waits, which Postgres breaks by ending one statement (SQLSTATE 40P01) after deadlock_timeout, a second by default. */

const DEADLOCK = '40P01';
const TRIES_MAX = 3;

/** Does work that is one statement, and may be done again: nothing of it has happened when Postgres ended it. */
export async function retryDeadlock<T>(work: () => Promise<T>): Promise<T> {
  for (let tries = 1; ; tries++) {
    try {
      return await work();
    } catch (error) {
      if ((error as { code?: string }).code !== DEADLOCK || tries === TRIES_MAX) throw error;
    }
  }
}
