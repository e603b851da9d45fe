/** What does not work now, by the live counters: shown above every page, also without the database. */

import { setTimeout as delay } from 'node:timers/promises';
import { ProblemError, problemLater } from '../../base/http/problem.ts';
import type { Live } from '../../manage/live/counters.ts';

/** True: the outage lasts. Shown by partials/layout/outages.eta; live.js applies the same rules to each message of the stream. */
interface Outages {
  /** The database is down, and webhook requests are refused. */
  database: boolean;
  /** The database is down, and webhook requests are spooled. */
  spooling: boolean;
  rate_limits: boolean;
}

/** @param live null in the first second: nothing is known. */
export function outagesOf(live: Live | null): Outages {
  return {
    database: live?.database === 'down' && !live.spooling,
    spooling: live?.database === 'down' && live.spooling,
    rate_limits: live?.processes.some((one) => one.rate_limit_store === 'degraded') ?? false,
  };
}

/** How long a page waits for a database that is down: a frozen one lets a query wait for 10 s. */
const PATIENCE_MS = 1_000;
const RETRY_SECONDS = 1;

/** Resolves like `work`. While the database is down, rejects with `database_unavailable` after PATIENCE_MS. */
export async function withPatience<T>(work: Promise<T>, { database, spooling }: Outages): Promise<T> {
  if (!database && !spooling) return work;
  const abort = new AbortController();
  const tooLate = delay(PATIENCE_MS, null, { signal: abort.signal, ref: false }).then(() => {
    throw new ProblemError(problemLater('database_unavailable', RETRY_SECONDS));
  });
  try {
    return await Promise.race([work, tooLate]);
  } finally {
    tooLate.catch(() => {});
    abort.abort();
  }
}
