/** Deliveries that a filter has to judge before their first lease, and those that it excludes. */

import { uuidv7Time } from '../ids.ts';
import type { Database } from '../pool.ts';
import { waitingDays } from './deliveries.ts';
import { arrayOf } from './sql.ts';

/**
 * SQL: a filter has not judged the delivery `d`. One that was leased before was let through, and one that a user replayed is delivered
 * whatever the filter says: a replay is in its history.
 */
export const unjudged = (d: string) => `${d}.state = 'pending' and ${d}.leases = 0 and ${d}.history is null`;

export interface CandidateOrder {
  agentId: string;
  /** Null: all webhooks. */
  webhookIds: readonly string[] | null;
  /** As in ClaimOrder. */
  claimableFrom: string;
  afterWebhookId: string | null;
  /** Deliveries. */
  max: number;
  /** Limit on the sum of the bodies that filters read; the first delivery is returned whatever its size. */
  bytesMax: number;
}

/** An unjudged delivery with its event. `headers` is null when retention has removed the event. */
export interface Candidate {
  id: string;
  /** Position in the round-robin order over webhooks. */
  place: number;
  /** When it became claimable, as Postgres prints it. */
  availableAt: string;
  contentType: string | null;
  eventType: string | null;
  headers: Buffer | null;
  bytes: number;
  body: Buffer | null;
}

/** A webhook whose subscription has a filter, with its oldest unjudged deliveries. */
export interface FilteredWebhook {
  id: string;
  name: string;
  filter: string;
  candidates: Candidate[];
  /** The webhook has no other unjudged delivery that is claimable. */
  complete: boolean;
}

/** `webhooks` that had no place in the slice are missing; `all` tells how many there are. */
export interface Slice {
  /** In the order of candidates. */
  webhooks: FilteredWebhook[];
  all: number;
  /** When the oldest unjudged delivery of all webhooks became claimable, Unix milliseconds; null: there is none. */
  oldestMs: number | null;
}

type Row = Omit<Candidate, 'id'> & {
  id: string | null;
  webhookId: string;
  name: string;
  filter: string;
  more: boolean;
  ofAll: number;
  oldestMs: number | null;
};

/** As in claim-deliveries.ts: the minimum of the limit for one webhook. */
const EACH_MIN = 32;

/**
 * Reads the oldest unjudged deliveries of an agent, round-robin over its webhooks with filters, in the order of claims. Takes no locks.
 * Bodies are read only for expressions that name `body`.
 */
export async function readCandidates(database: Database, order: CandidateOrder): Promise<Slice> {
  const rows = await database.query<Row>({
    name: 'filter-candidates',
    plan: 'once',
    text: `
      with days as materialized (
        select min(day) as first, max(day) + interval '24 hours' as after_last from ${waitingDays('$1', '$3::timestamptz')} d
      ), filtered as materialized (
        select s.webhook_id, w.name, s.filter, strpos(s.filter, 'body') > 0 as reads_body,
          least($5::bigint, greatest(${EACH_MIN}, ceil(4.0 * $5 / count(*) over ()))) as share, count(*) over () as of_all
        from subscriptions s
        join webhooks w on w.id = s.webhook_id
        where s.agent_id = $1 and s.filter is not null and ($2::uuid[] is null or s.webhook_id = any ($2))
      ), found as (
        select f.*, d.*,
          row_number() over (partition by f.webhook_id order by d.available_at, d.event_id) as turn,
          count(d.id) over (partition by f.webhook_id) as found
        from filtered f
        cross join days
        left join lateral (
          select received_at, id, event_id, available_at, bytes
          from deliveries
          where agent_id = $1 and webhook_id = f.webhook_id and received_at >= days.first and received_at < days.after_last
            and ${unjudged('deliveries')} and available_at <= now() and available_at >= $3::timestamptz
          order by available_at
          limit f.share + 1
        ) d on true
      ), in_turn as (
        select *, row_number() over (order by turn, webhook_id <= $4::uuid, webhook_id) as place from found
        order by place limit $5
      ), chosen as (
        select *, sum(case when reads_body then bytes else 0 end) over (order by place) as bytes_so_far from in_turn
      )
      select c.id, c.webhook_id as "webhookId", c.name, c.filter, c.place::int, c.available_at::text as "availableAt",
        c.found > c.share or count(c.id) over (partition by c.webhook_id) < c.found as more, c.of_all::int as "ofAll",
        (select extract(epoch from min(available_at)) * 1000 from found)::float8 as "oldestMs",
        e.content_type as "contentType", e.event_type as "eventType", e.headers, c.bytes, case when c.reads_body then e.body end as body
      from chosen c
      left join events e on e.received_at = c.received_at and e.id = c.event_id and e.webhook_id = c.webhook_id
      where c.place = 1 or c.bytes_so_far <= $6
      order by c.place`,
    values: [
      order.agentId,
      order.webhookIds && arrayOf(order.webhookIds),
      order.claimableFrom,
      order.afterWebhookId,
      order.max,
      order.bytesMax,
    ],
  });
  const webhooks = new Map<string, FilteredWebhook>();
  for (const { id, webhookId, name, filter, more, ofAll: _, oldestMs: __, ...event } of rows) {
    const webhook = webhooks.get(webhookId) ?? { id: webhookId, name, filter, candidates: [], complete: !more };
    webhooks.set(webhookId, webhook);
    if (id !== null) webhook.candidates.push({ id, ...event });
  }
  return { webhooks: [...webhooks.values()], all: rows[0]?.ofAll ?? 0, oldestMs: rows[0]?.oldestMs ?? null };
}

/**
 * Ends these deliveries as filtered, those that are still unjudged. Returns how many. Rows locked by another claim are left out: it
 * judges them too. Each row is looked up by its
 * key alone: with the other conditions in the join, Postgres read all waiting deliveries of the agent for each slice.
 */
export async function markFiltered(database: Database, agentId: string, ids: readonly string[]): Promise<number> {
  const rows = await database.query({
    name: 'mark-filtered',
    plan: 'once',
    text: `
      with excluded as materialized (
        select d.received_at, d.id, d.webhook_id
        from unnest($2::uuid[], $3::timestamptz[]) r (id, received_at)
        cross join lateral (
          select * from deliveries
          where received_at = r.received_at and id = r.id
          limit 1
          for update skip locked
        ) d
        where d.agent_id = $1 and ${unjudged('d')}
      )
      update deliveries d set state = 'filtered', finished_at = now()
      from excluded e
      where d.received_at = e.received_at and d.id = e.id and d.webhook_id = e.webhook_id
      returning 1`,
    values: [agentId, arrayOf(ids), arrayOf(ids.map(uuidv7Time))],
  });
  return rows.length;
}

/** Failures of a subscription's filter since the last write. */
export interface FilterFailures {
  agentId: string;
  webhookId: string;
  /** The expression that failed: another one may have replaced it. */
  filter: string;
  events: number;
  reason: string;
}

/** Adds to the failures of subscriptions. */
export async function addFilterFailures(
  { query }: Pick<Database, 'query'>,
  failures: Iterable<FilterFailures>,
): Promise<void> {
  await query({
    text: `
      update subscriptions s
      set filter_failures = s.filter_failures + f.events, filter_failure = left(f.reason, 500), filter_failed_at = now()
      from json_to_recordset($1::json) f ("agentId" uuid, "webhookId" uuid, filter text, events bigint, reason text)
      where s.agent_id = f."agentId" and s.webhook_id = f."webhookId" and s.filter = f.filter`,
    values: [JSON.stringify([...failures])],
  });
}
