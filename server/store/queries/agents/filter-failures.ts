/** Records the failures of filters, and suspends those that are too slow. */
import type { Queries } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';
import { addSlow, FILTER_SLOW_MAX, suspendedUntil } from './subscriptions.ts';

/** Failures of a subscription's filter since the last write. */
export interface FilterFailures {
  agentId: string;
  webhookId: string;
  /** The expression that failed: another one may have replaced it. */
  filter: string;
  events: number;
  /** Number of them on which the filter took too long or ended its thread. */
  slow: number;
  reason: string;
}

/** A filter that was suspended because it took too long. */
interface SuspendedFilter {
  agentId: string;
  webhookId: string;
  /** ISO time. */
  until: string;
}

/** Adds to the failures of subscriptions, and to those of ended ones whose deliveries wait. */
export function addFilterFailures({ query }: Queries, failures: Iterable<FilterFailures>): Promise<SuspendedFilter[]> {
  const suspended = (s: string) =>
    `${s}.agent_id, ${s}.webhook_id, case when f.slow > 0 and ${s}.filter_slow >= ${FILTER_SLOW_MAX} then ${suspendedUntil(s)} end as until`;
  return query<SuspendedFilter>({
    text: `
      with f as materialized (
        select * from json_to_recordset($1::json)
          f ("agentId" uuid, "webhookId" uuid, filter text, events bigint, slow int, reason text)
      ), subscribed as (
        update subscriptions s
        set filter_failures = s.filter_failures + f.events, filter_failure = left(f.reason, 500), filter_failed_at = now(),
          ${addSlow('s', 'f.slow')}
        from f
        where s.agent_id = f."agentId" and s.webhook_id = f."webhookId" and s.filter = f.filter
        returning ${suspended('s')}
      ), ended as (
        update replay_targets t
        set ${addSlow('t', 'f.slow')}
        from f
        where t.agent_id = f."agentId" and t.webhook_id = f."webhookId" and t.filter = f.filter and f.slow > 0
        returning ${suspended('t')}
      )
      select distinct agent_id as "agentId", webhook_id as "webhookId", ${isoText('until')} as until
      from (select * from subscribed union all select * from ended) changed
      where until is not null`,
    values: [JSON.stringify([...failures])],
  });
}
