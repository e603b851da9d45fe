/** What does not work now, by the live counters: shown above every page, also without the database. */

import { ProblemError, problemLater } from '../../base/http/problem.ts';
import { within } from '../../base/time/every.ts';
import type { Live } from '../../manage/live/counters.ts';

/** True: the outage has not ended. Shown by partials/layout/outages.eta; live.js applies the same rules to each message of the stream. */
interface Outages {
  /** The database is down, and webhook requests are refused. */
  database: boolean;
  /** The database is down, and webhook requests are spooled. */
  spooling: boolean;
  rate_limits: boolean;
}

/** The outages that the live counters show. @param live null in the first second: nothing is known */
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

/**
 * Resolves like `work`. Rejects with `database_unavailable` if the database is down after PATIENCE_MS or later. Not before: a busy machine may
 * take a slow database for one that is down, above all at a start. Also later: a frozen database is known to be down only after 3 s.
 */
export async function withPatience<T>(work: Promise<T>, outages: () => Outages): Promise<T> {
  const answer = work.then((value) => ({ value }));
  for (;;) {
    const early = await within(PATIENCE_MS, answer);
    if (early !== undefined) return early.value;
    if (isDown(outages())) throw new ProblemError(problemLater('database_unavailable', RETRY_SECONDS));
  }
}

function isDown({ database, spooling }: Outages): boolean {
  return database || spooling;
}
