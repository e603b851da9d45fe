/** The next deliveries of an agent with filters: those that a filter has to judge before their first lease, and those that need no verdict. */
import type { Database } from '../../connect/pool.ts';
import { uuidv7Time } from '../../ids.ts';
import { arrayOf, Placeholders } from '../../sql.ts';
import { peekInRound } from './next.ts';
import type { ClaimOrder } from './order.ts';

/** SQL: a filter has still to judge the delivery `d`. It has judged those that were leased; replays, which have a history, are not judged. */
export const unjudged = (d: string) => `${d}.state = 'pending' and ${d}.leases = 0 and ${d}.history is null`;

export interface Candidate {
  id: string;
  webhookId: string;
  webhookName: string;
  /** The filter of its subscription; null: the delivery needs no verdict. */
  filter: string | null;
  /** The filter took too long on other events, and is not evaluated for now. */
  suspended: boolean;
  /** False: the limit on the bodies was reached before it, and its event was not read. */
  isRead: boolean;
  contentType: string | null;
  eventType: string | null;
  /** Null: retention has removed the event, or nothing judges it. */
  headers: Buffer | null;
  bytes: number;
  /** Null: the filter does not read it. */
  body: Buffer | null;
  /** Since when the oldest delivery of the agent can be claimed, Unix milliseconds. */
  sinceMs: number;
}

/**
 * Reads the next `max` deliveries in the order of claims. Takes no locks.
 * @param bytesMax limit on the sum of the bodies that filters read; the first delivery is read whatever its size
 */
export function readCandidates(
  { query }: Database,
  order: ClaimOrder,
  max: number,
  bytesMax: number,
): Promise<Candidate[]> {
  const given = new Placeholders();
  const terms = { agentId: given.of(order.agentId, 'uuid'), max: given.of(max, 'bigint'), only: '' };
  const next = peekInRound(given, order, terms, `, ${unjudged('d')} as is_unjudged`);
  return query<Candidate>({
    name: `filter-candidates${order.hasManyWebhooks ? '-of-many' : ''}${order.isOrdered ? '-in-order' : ''}`,
    plan: 'keyed',
    text: `
      with judged_by as (
        select n.*, case when is_unjudged then n.filter end as judge, is_unjudged and strpos(n.filter, 'body') > 0 and not suspended as reads_body
        from (${next}) n
      ), in_turn as (
        select *, place = 1 or sum(case when reads_body then bytes else 0 end) over (order by place) <= ${given.of(bytesMax, 'bigint')} as is_read
        from judged_by
      )
      select c.id, c.webhook_id as "webhookId", c.webhook_name as "webhookName", c.judge as filter, c.suspended, c.is_read as "isRead", c.bytes,
        e.content_type as "contentType", e.event_type as "eventType", e.headers, case when c.reads_body then e.body end as body,
        extract(epoch from c.since)::float8 * 1000 as "sinceMs"
      from in_turn c
      left join lateral (
        select content_type, event_type, headers, body from events
        where c.judge is not null and c.is_read
          and received_at = c.received_at and id = c.event_id and webhook_id = c.webhook_id
        limit 1
      ) e on true
      order by c.place`,
    values: given.values,
    place: { cell: order.cell },
  });
}

/**
 * Marks as filtered those of these deliveries that are still unjudged. Returns how many. Rows locked by another claim are left out: that claim
 * judges them too. Each row is looked up by its key alone: with the other conditions in the join, Postgres read all waiting deliveries of
 * the agent for each slice.
 */
export async function endFiltered(database: Database, agentId: string, ids: readonly string[]): Promise<number> {
  const rows = await database.query({
    name: 'mark-filtered',
    plan: 'keyed',
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
