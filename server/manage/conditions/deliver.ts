/** Sends the requests that are due, one after the other. Several machines may do so: each request is claimed by one of them. */

import type { Log } from '../../base/telemetry/log.ts';
import type { Queries } from '../../store/connect/pool.ts';
import { type ClaimedRequest, claimRequest, settleRequest } from '../../store/queries/alerts/alerts.ts';
import { POST_TIMEOUT_MS, type Posted, type PostSettings, postAlert, retryMs } from './post.ts';

const RETRY = { firstMs: 5_000, maxMs: 3_600_000 };
/** Attempts of one request. With RETRY they take about 10 to 14 hours. */
export const ATTEMPTS_MAX = 20;
/** Lease of a claimed request: longer than an attempt with its queries, so that no other machine begins one during it. */
const LEASE_SECONDS = 60;
/** Requests of one run. */
const RUN_MAX = 100;

interface DeliverParts {
  database: Queries;
  log: Log;
  onAttempt: (outcome: 'sent' | 'failed' | 'given_up') => void;
  /** Longest attempt. */
  timeoutMs?: number;
}

/**
 * Sends the requests that are due, until none is left or `signal` aborts. Rejects with errors of the database; a claimed request is then sent again with
 * the same id.
 */
export async function deliver(
  settings: PostSettings & { ALERT_URL: string },
  { database, log, onAttempt, timeoutMs = POST_TIMEOUT_MS }: DeliverParts,
  signal: AbortSignal,
): Promise<void> {
  for (let requests = 0; requests < RUN_MAX && !signal.aborted; requests++) {
    const claimed = await claimRequest(database, LEASE_SECONDS);
    if (claimed === null) return;
    const posted = claimed.too_old ? tooOld : await postAlert(settings, claimed, Date.now(), { timeoutMs, signal });
    const outcome = outcomeOf(claimed, posted);
    await settleRequest(database, claimed, {
      state: outcome === 'given_up' ? 'failed' : outcome === 'sent' ? 'sent' : 'pending',
      status: posted.status,
      error: posted.kind === 'failed' ? posted.error : null,
      retrySeconds: retryMs(posted, claimed.attempts - 1, RETRY) / 1000,
    });
    onAttempt(outcome);
    const { alert_id: alert, type, attempts } = claimed;
    if (posted.kind === 'sent') log('alert_sent', { alert, type, status: posted.status, attempts });
    else
      log(outcome === 'given_up' ? 'alert_given_up' : 'alert_send_failed', {
        alert,
        type,
        attempts,
        reason: posted.error,
        fix: posted.fix,
      });
  }
}

const tooOld: Posted = {
  kind: 'failed',
  status: null,
  error: 'it could not be sent for a day',
  fix: 'see the earlier lines, and weir alert test',
  retryAfterMs: null,
  durationMs: 0,
};

function outcomeOf({ attempts, too_old }: ClaimedRequest, { kind }: Posted): 'sent' | 'failed' | 'given_up' {
  if (kind === 'sent') return 'sent';
  return too_old || attempts >= ATTEMPTS_MAX ? 'given_up' : 'failed';
}
