/** The counters that a process reports to the primary. */
import type { Metrics } from '../telemetry/metrics.ts';
import type { Totals } from './counters.ts';

/** Path prefix of the ingest routes. */
const INGEST_PREFIX = '/in/';

/** Counts since the start of the process. A duplicate event counts as neither accepted nor refused. */
export function totalsOf(metrics: Metrics): Totals {
  const totals = { accepted: metrics.commits().events, rejected: 0, limited: 0, refused: 0, failed: 0, requests: 0 };
  for (const { route, status, count } of metrics.answers()) {
    totals.requests += count;
    if (route.startsWith(INGEST_PREFIX) && status >= 400) totals[refusalOf(status)] += count;
  }
  return totals;
}

function refusalOf(status: number): 'rejected' | 'limited' | 'failed' | 'refused' {
  if (status === 403) return 'rejected';
  if (status === 429) return 'limited';
  return status >= 500 ? 'failed' : 'refused';
}
