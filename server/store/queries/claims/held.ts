/**
 * Order by key: deliveries of an agent with the same key and lane are a queue (see order_key in the schema). Only the first delivery of a
 * queue can be claimed, until it is finished. When two claims lease two deliveries of a queue, the later claim fails at the unique index
 * deliveries_begun, and is repeated.
 */
import { concatenated, earliestBy } from '../../connect/place.ts';
import type { Queries } from '../../connect/pool.ts';
import { isoText } from '../../sql.ts';
import type { ClaimOrder } from './order.ts';

/** SQL condition: the deliveries `b` that are in the queue of the unfinished delivery `d`. */
const sameQueue = (d: string) =>
  `b.agent_id = ${d}.agent_id and b.order_key = ${d}.order_key and b.order_lane = ${d}.order_lane`;

/** SQL condition: no other delivery of its key is before the unfinished delivery `d`. */
export const isFirst = (d: string) => `(${d}.order_key is null or ${d}.order_number = 0 or not exists (
  select from deliveries b
  where ${sameQueue(d)} and b.state in ('pending', 'leased')
    and (b.order_number, b.event_id, b.id) < (${d}.order_number, ${d}.event_id, ${d}.id)))`;

/** SQL condition: the delivery `d` waits for another one of its key. */
export const isHeld = (d: string) => `(${d}.order_key is not null and ${d}.state = 'pending' and not ${isFirst(d)})`;

/** SQL condition: the delivery `d`, which a statement ends, holds another one. */
export const holdsAnother = (d: string) => `(${d}.order_key is not null and exists (
  select from deliveries b where ${sameQueue(d)} and b.state = 'pending' and b.id <> ${d}.id))`;

/** Limits on the deliveries that one statement reads, and on the statements of a call. */
const SLICE = 1_000;
const SLICES_MAX = 20;

/**
 * Takes held deliveries out of the range that claims read, since each claim would read them again: a claim behind 100,000 held ones took
 * 0.2 s. Reads the oldest deliveries of the agent, and the next ones while all of a statement were held.
 *
 * The first delivery of the queue is locked together with the held ones. If it is finished before, they are not set aside; if it is finished
 * after, pass_turn() finds them and makes the next one available. Rows that another statement has locked are left out.
 */
export async function setHeldAside({ query }: Queries, order: ClaimOrder): Promise<void> {
  for (let slice = 0; slice < SLICES_MAX; slice++) {
    const [row] = await query<{ aside: number }>({
      name: 'set-held-aside',
      plan: 'keyed',
      text: `
        with oldest as materialized (
          select received_at, id, webhook_id, agent_id, order_key, order_lane, order_number, event_id, state
          from deliveries
          where bytes >= 0 and agent_id = $1 and state in ('pending', 'leased') and available_at <= now() and available_at >= $2
          order by available_at limit ${SLICE}
        ), held as materialized (
          select o.received_at, o.id, o.webhook_id, first.received_at as first_at, first.id as first_id, first.webhook_id as first_webhook_id
          from oldest o
          cross join lateral (
            select b.received_at, b.id, b.webhook_id from deliveries b
            where ${sameQueue('o')} and b.state in ('pending', 'leased')
            order by b.order_number, b.event_id, b.id limit 1
          ) first
          where o.order_key is not null and o.state = 'pending' and o.order_number > 0 and first.id <> o.id
        ), firsts as materialized (
          select locked.id
          from (select distinct first_at, first_id, first_webhook_id from held) f
          cross join lateral (
            select id from deliveries
            where received_at = f.first_at and id = f.first_id and webhook_id = f.first_webhook_id and state in ('pending', 'leased')
            limit 1 for key share skip locked
          ) locked
        ), own as materialized (
          select locked.*
          from held h
          cross join lateral (
            select received_at, id, webhook_id from deliveries
            where received_at = h.received_at and id = h.id and webhook_id = h.webhook_id and state = 'pending' and order_number > 0
            limit 1 for no key update skip locked
          ) locked
          where h.first_id in (select id from firsts)
        ), aside as (
          update deliveries d set available_at = 'infinity'
          from own where d.received_at = own.received_at and d.id = own.id and d.webhook_id = own.webhook_id and d.state = 'pending'
          returning 1
        )
        select count(*)::int as aside from aside`,
      values: [order.agentId, order.claimableFrom],
      place: { cell: order.cell },
    });
    if (row!.aside < SLICE) return;
  }
}

/**
 * Reads when the longest held delivery of each active agent was received, without replays. Agents that do not claim are left out:
 * nothing is set aside.
 */
export async function readLongestHeld({
  query,
}: Queries): Promise<{ agent_id: string; name: string; since: string }[]> {
  // Without ordered subscriptions no deliveries are read. The limits make Postgres look up each agent instead of joining all rows.
  if ((await query({ text: 'select from subscriptions where order_id is not null limit 1' })).length === 0) return [];
  return query({
    name: 'read-longest-held',
    plan: 'keyed',
    text: `
      select a.id as agent_id, a.name, ${isoText('held.received_at')} as since
      from (select distinct agent_id from subscriptions where order_id is not null) s
      cross join lateral (
        select id, name from agents where id = s.agent_id and revoked_at is null and paused_at is null limit 1
      ) a
      cross join lateral (
        select received_at from deliveries
        where agent_id = a.id and state = 'pending' and available_at = 'infinity' and order_lane = 0
        order by received_at limit 1
      ) held`,
    values: [],
    place: { each: earliestBy(({ agent_id }) => agent_id, 'since'), lenient: true },
  });
}

/** Counts the held deliveries of each agent, among `max` deliveries that have a key: all but one in each queue. */
export function countHeld({ query }: Queries, max: number): Promise<{ agentId: string; held: number }[]> {
  return query({
    text: `
      select agent_id as "agentId", (count(*) - count(distinct (order_key, order_lane)))::int as held
      from (
        select agent_id, order_key, order_lane from deliveries
        where order_key is not null and state in ('pending', 'leased') limit ${max}
      ) d
      group by agent_id`,
    place: { each: concatenated, lenient: true },
  });
}
