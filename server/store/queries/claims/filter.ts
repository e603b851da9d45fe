/** Deliveries that a filter has to judge before their first lease, and those that it excludes. */

import type { Database } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf } from '../../sql.ts';
import { subscribedWebhooks } from '../agents/subscriptions.ts';
import { shareOf } from './room.ts';

/**
 * SQL: a filter has not judged the delivery `d`. One that was leased before was let through, and one that a user replayed is delivered
 * whatever the filter says: a replay is in its history.
 */
export const unjudged = (d: string) => `${d}.state = 'pending' and ${d}.leases = 0 and ${d}.history is null`;

interface CandidateOrder {
  /** See ClaimOrder. */
  cell: number;
  agentId: string;
  /** Null: all webhooks. */
  webhookIds: readonly string[] | null;
  /** See ClaimOrder. */
  claimableFrom: string;
  afterWebhookId: string | null;
  /** Limit on the number of deliveries. */
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
  /** The filter took too long on other events, and is not evaluated for now. */
  suspended: boolean;
  /** When its oldest unjudged delivery became claimable, as Postgres prints it; null: it has none. */
  oldestAt: string | null;
  candidates: Candidate[];
  /** The webhook has no other unjudged delivery that is claimable. */
  complete: boolean;
}

interface Slice {
  /** All webhooks whose subscriptions have a filter, including those without candidates. */
  webhooks: FilteredWebhook[];
  /** When the oldest unjudged delivery of all webhooks became claimable, Unix milliseconds; null when every delivery is judged. */
  oldestMs: number | null;
}

/** For a webhook without a candidate, `id` and all columns of the delivery are null. */
type Row = Omit<Candidate, 'id'> & {
  id: string | null;
  webhookId: string;
  name: string;
  filter: string;
  suspended: boolean;
  oldestAt: string | null;
  more: boolean;
  oldestMs: number | null;
};

/**
 * Reads the oldest unjudged deliveries of an agent, round-robin over its webhooks with filters, in the order of claims. Takes no locks.
 * Bodies are read only for expressions that name `body` and are not suspended. A webhook without an unjudged delivery takes no place from the others.
 */
export async function readCandidates(database: Database, order: CandidateOrder): Promise<Slice> {
  const rows = await database.query<Row>({
    name: 'filter-candidates',
    plan: 'once',
    text: `
      with filtered as materialized (
        select s.webhook_id, w.name, s.filter, s.suspended, strpos(s.filter, 'body') > 0 and not s.suspended as reads_body,
          ${shareOf('$5', 'count(*) over ()')} as share
        from ${subscribedWebhooks('$1')} s
        join webhooks w on w.id = s.webhook_id
        where s.filter is not null and ($2::uuid[] is null or s.webhook_id = any ($2))
      ), found as (
        select f.webhook_id, f.reads_body, d.*, row_number() over (partition by f.webhook_id order by d.available_at, d.event_id) as turn
        from filtered f
        cross join lateral (
          select received_at, id, event_id, available_at, bytes
          from deliveries
          where agent_id = $1 and webhook_id = f.webhook_id
            and ${unjudged('deliveries')} and available_at <= now() and available_at >= $3::timestamptz
          order by available_at
          limit f.share + 1
        ) d
      ), in_turn as (
        select *, row_number() over (order by turn, webhook_id <= $4::uuid, webhook_id) as place from found
        order by place limit $5
      ), chosen as (
        select *, sum(case when reads_body then bytes else 0 end) over (order by place) as bytes_so_far from in_turn
      ), candidates as materialized (
        select c.webhook_id, c.id, c.place, c.available_at, c.bytes, e.content_type, e.event_type, e.headers,
          case when c.reads_body then e.body end as body
        from chosen c
        left join events e on e.received_at = c.received_at and e.id = c.event_id and e.webhook_id = c.webhook_id
        where c.place = 1 or c.bytes_so_far <= $6
      )
      select c.id, f.webhook_id as "webhookId", f.name, f.filter, f.suspended, c.place::int, c.available_at::text as "availableAt",
        c.content_type as "contentType", c.event_type as "eventType", c.headers, c.bytes, c.body, each_one.oldest::text as "oldestAt",
        coalesce(found > share or found > count(c.id) over (partition by f.webhook_id), false) as more,
        extract(epoch from min(each_one.oldest) over ())::float8 * 1000 as "oldestMs"
      from filtered f
      left join (
        select webhook_id, count(*) as found, min(available_at) as oldest from found group by webhook_id
      ) each_one using (webhook_id)
      left join candidates c using (webhook_id)
      order by c.place`,
    values: [
      order.agentId,
      order.webhookIds && arrayOf(order.webhookIds),
      order.claimableFrom,
      order.afterWebhookId,
      order.max,
      order.bytesMax,
    ],
    place: { cell: order.cell },
  });
  const webhooks = new Map<string, FilteredWebhook>();
  for (const { id, webhookId, name, filter, suspended, oldestAt, more, oldestMs: _, ...event } of rows) {
    const webhook = webhooks.get(webhookId) ?? {
      id: webhookId,
      name,
      filter,
      suspended,
      oldestAt,
      candidates: [],
      complete: !more,
    };
    webhooks.set(webhookId, webhook);
    if (id !== null) webhook.candidates.push({ id, ...event });
  }
  return { webhooks: [...webhooks.values()], oldestMs: rows[0]?.oldestMs ?? null };
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
          where received_at = r.received_at and id = r.id and state = 'pending'
          limit 1
          for update skip locked
        ) d
        where d.agent_id = $1 and ${unjudged('d')}
      )
      update deliveries d set state = 'filtered', finished_at = now()
      from excluded e
      where d.received_at = e.received_at and d.id = e.id and d.webhook_id = e.webhook_id and d.state = 'pending'
      returning 1`,
    values: [agentId, arrayOf(ids), arrayOf(ids.map(uuidv7Time))],
    place: { ids },
  });
  return rows.length;
}
