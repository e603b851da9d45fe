/** The filters of all subscriptions, their failures, which suspend those that are too slow, and events on which a filter is tried. */
import type { CandidateEvent } from '../../../model/filters/evaluate.ts';
import { newest } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { arrayOf, isoText } from '../../sql.ts';
import { addSlow, FILTER_SLOW_MAX, suspendedUntil } from './subscriptions.ts';

/** Timeout of the search for the newest events: a webhook that is rarely used has them far back. */
const TIMEOUT_MS = 5_000;

interface EventToTry extends Omit<CandidateEvent, 'filter'> {
  id: string;
  receivedAt: string;
}

/**
 * Reads the newest events of a webhook; undefined if it does not exist.
 * @param order.bytesMax limit on the sum of the bodies, except the first
 */
export async function readEventsToTry(
  { query }: Queries,
  order: { webhookId: string; readsBody: boolean; max: number; bytesMax: number },
): Promise<EventToTry[] | undefined> {
  const [webhook] = await query<{ name: string }>({
    text: 'select name from webhooks where id = $1 and deleted_at is null',
    values: [order.webhookId],
  });
  if (webhook === undefined) return undefined;
  const rows = await query<Omit<EventToTry, 'webhook'>>({
    text: `
      with newest as (
        select received_at, id, webhook_id, bytes, content_type, event_type, headers from events
        where webhook_id = $1 order by received_at desc, id desc limit $2
      ), chosen as (
        select *, sum(bytes) over (order by received_at desc, id desc) - bytes as bytes_before from newest
      )
      select c.id, ${isoText('c.received_at')} as "receivedAt", c.content_type as "contentType", c.event_type as "eventType", c.headers,
        c.bytes, case when $4::boolean then e.body end as body
      from chosen c join events e on e.received_at = c.received_at and e.id = c.id and e.webhook_id = c.webhook_id
      where not $4 or c.bytes_before < $3
      order by c.received_at desc, c.id desc`,
    values: [order.webhookId, order.max, order.bytesMax, order.readsBody],
    timeoutMs: TIMEOUT_MS,
    place: { each: newest(order.max) },
  });
  return rows.map((row) => ({ ...row, webhook: webhook.name }));
}

/** The filter of a subscription of an active agent. */
export interface StoredFilter {
  agentId: string;
  agentName: string;
  webhookId: string;
  webhookName: string;
  filter: string;
  /** Events on which it failed since it was set. */
  failures: number;
  reason: string | null;
  failedAt: string | null;
  suspendedUntil: string | null;
}

/** Reads the filters of these agents (null: of all active ones), suspended ones first, at most `rowsMax`. */
export function readFilters(
  { query }: Queries,
  agentIds: readonly string[] | null,
  rowsMax: number,
): Promise<StoredFilter[]> {
  return query<StoredFilter>({
    text: `
      select s.agent_id as "agentId", a.name as "agentName", s.webhook_id as "webhookId", w.name as "webhookName", s.filter,
        s.filter_failures::int as failures, s.filter_failure as reason, ${isoText('s.filter_failed_at')} as "failedAt",
        ${isoText(suspendedUntil('s'))} as "suspendedUntil"
      from subscriptions s
      join agents a on a.id = s.agent_id and a.revoked_at is null
      join webhooks w on w.id = s.webhook_id and w.deleted_at is null
      where s.filter is not null and ($1::uuid[] is null or s.agent_id = any ($1))
      order by ${suspendedUntil('s')} is null, a.name, w.name, s.webhook_id
      limit $2`,
    values: [agentIds && arrayOf(agentIds), rowsMax],
  });
}

/** Failures of a subscription's filter since the last write. */
export interface FilterFailures {
  agentId: string;
  webhookId: string;
  /** The expression that failed: another one may have replaced it. */
  filter: string;
  events: number;
  /** Number of them on which the filter took too long or ended its thread. */
  slow: number;
  /** Reason of the last failure. */
  reason: string;
}

/** A filter that was suspended because it took too long. */
interface SuspendedFilter {
  agentId: string;
  webhookId: string;
  /** ISO time. */
  until: string;
}

/**
 * Adds failures to subscriptions, also to ended ones that have replay targets. Returns the filters that are suspended now because of them.
 */
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
