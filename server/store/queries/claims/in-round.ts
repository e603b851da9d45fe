/** Leases deliveries of several webhooks in turn. */
import type { Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';
import { subscribedWebhooks } from '../agents/subscriptions.ts';
import { type ClaimedRows, runClaim } from './claim-and-ack.ts';
import { unjudged } from './filter.ts';
import { daysOfClaim, lease, leasedColumns, leaseValues, mayClaim, millisecondsOf, withEventOf } from './lease.ts';
import type { ClaimOrder, JudgedDeliveries } from './order.ts';
import type { Receipt } from './receipts.ts';
import { due, shareOf, shareOfDue } from './room.ts';

const withHorizons = `
  select webhook_id, filter is not null as filtered, up_to
  from ${subscribedWebhooks('$1')} s
  left join (
    select unnest($13::uuid[]) as webhook_id, json_array_elements_text($14::json)::timestamptz as up_to
  ) horizons using (webhook_id)`;

const isJudged = `and (not s.filtered
  or available_at <= s.up_to and (not (${unjudged('deliveries')}) or id = any ($12::uuid[])))`;

/** SQL: the next webhook after this one of which the agent has pending or leased deliveries. @param upTo SQL of a bound, or none */
const next = (after: string, upTo = '') => `
  select d.webhook_id from deliveries d
  where d.agent_id = $1 and d.state in ('pending', 'leased') and d.webhook_id > ${after} ${upTo}
  order by d.webhook_id limit 1`;
const FIRST = `'00000000-0000-0000-0000-000000000000'::uuid`;
const upToLast = 'and d.webhook_id <= $11::uuid';

/**
 * SQL: the first webhooks of the round with something to claim, as many as the claim may return. For an agent of many webhooks: one with 10,000
 * of which each had a backlog locked 32 deliveries of each for a claim of one, and read 10,000 index entries when it had none.
 */
const firstOfRound = `(
  with recursive later as (
    (${next(`coalesce($11::uuid, ${FIRST})`)})
    union all
    select (${next('l.webhook_id')}) from later l where l.webhook_id is not null
  ), sooner as (
    (${next(FIRST, upToLast)})
    union all
    select (${next('l.webhook_id', upToLast)}) from sooner l where l.webhook_id is not null
  )
  select w.webhook_id
  from (select webhook_id from later union all select webhook_id from sooner) w
  cross join lateral (
    (select from subscriptions s where s.webhook_id = w.webhook_id and s.agent_id = $1 order by s.webhook_id limit 1)
    union all
    (select from replay_targets t where t.agent_id = $1 and t.webhook_id = w.webhook_id order by t.webhook_id limit 1)
    limit 1
  ) subscribed
  cross join lateral (
    select from deliveries d
    where d.agent_id = $1 and d.webhook_id = w.webhook_id
      and d.state in ('pending', 'leased') and d.available_at <= now() and d.available_at >= $7::timestamptz
    order by d.available_at
    limit 1
  ) due
  where $10::uuid[] is null or w.webhook_id = any ($10)
  limit $2
)`;

/** Webhooks that a claim looks at beyond those that can fill it: another statement may have locked all deliveries of some. */
const SPARE_WEBHOOKS = 10;

/**
 * SQL: the same for an agent of fewer webhooks, with a few more webhooks. CPU of Postgres for a claim, ms, from webhooks that all have a backlog;
 * before, a claim locked deliveries of all of them. Medians of 25 to 60 in turns at a load of 15:
 *
 *     deliveries per claim        1              10             100
 *     5 webhooks            1.7 and 1.9    3.0 and 3.0    7.5 and 7.6
 *     20 webhooks           2.0 and 2.2    4.7 and 3.9   14.4 and 14.8
 *     100 webhooks          3.5 and 2.5   13.3 and 4.1   41.8 and 15.6
 */
const dueInTurn = `(
  select w.webhook_id
  from (
    select webhook_id from ${subscribedWebhooks('$1')} s
    where $10::uuid[] is null or webhook_id = any ($10)
    order by webhook_id <= $11::uuid, webhook_id
  ) w
  cross join lateral (
    select from deliveries d
    where d.agent_id = $1 and d.webhook_id = w.webhook_id
      and d.state in ('pending', 'leased') and d.available_at <= now() and d.available_at >= $7::timestamptz
    order by d.available_at
    limit 1
  ) due
  limit $2::bigint + ${SPARE_WEBHOOKS}
)`;

/** SQL: since when the oldest delivery of all webhooks of the agent can be claimed. */
const oldest = `(select min(available_at) ${due('$1')} and available_at >= $7::timestamptz)`;

/** @param judged null: the agent has no filters */
export function claimInRound(
  query: Query,
  order: ClaimOrder,
  judged: JudgedDeliveries | null,
  acks: readonly Receipt[],
): Promise<ClaimedRows> {
  const looksAtSome = judged === null && order.hasManyWebhooks;
  const webhooks = looksAtSome ? firstOfRound : judged === null ? dueInTurn : `(${withHorizons})`;
  const values = [
    ...leaseValues(order),
    order.webhookIds && arrayOf(order.webhookIds),
    order.afterWebhookId,
    ...(judged === null
      ? []
      : [
          arrayOf(judged.passedIds),
          arrayOf(judged.horizons.map(({ webhookId }) => webhookId)),
          JSON.stringify(judged.horizons.map(({ upTo }) => upTo)),
        ]),
  ];
  const days = daysOfClaim(order, values);
  const name = looksAtSome ? 'claim-in-round-of-many' : judged === null ? 'claim-in-round' : 'claim-judged-in-round';
  const statement = {
    name: `${name}${days.name}`,
    text: (leftOut: string) => `
      with candidates as materialized (
        select d.received_at, d.id, d.event_id, d.webhook_id, d.available_at, d.bytes, d.state, w.name as webhook_name,
          ${judged === null ? oldest : 'd.available_at'} as since
        from agents a
        cross join (
          select *, count(*) over () as of_all
          from ${webhooks} s
          where $10::uuid[] is null or webhook_id = any ($10)
        ) s
        join webhooks w on w.id = s.webhook_id
        cross join lateral (
          select received_at, id, event_id, webhook_id, available_at, bytes, state
          from deliveries
          where agent_id = $1 and webhook_id = s.webhook_id
            and state in ('pending', 'leased') and available_at <= now() and available_at >= $7::timestamptz ${leftOut}
            ${judged === null ? '' : isJudged}
          order by available_at
          limit ${judged === null ? shareOfDue('$2', 's.of_all') : shareOf('$2', 's.of_all')}
          for update skip locked
        ) d
        where ${mayClaim}
      ), in_turn as (
        select *, row_number() over (order by turn, webhook_id <= $11::uuid, webhook_id) as place
        from (select *, row_number() over (partition by webhook_id order by available_at, event_id) as turn from candidates) t
        order by place
        limit $2
      ), chosen as (
        select t.*, e.event_type, e.content_type, e.headers, e.body
        from (select *, sum(bytes) over (order by place) - bytes as bytes_before from in_turn) t
        ${withEventOf('t', days)}
        where bytes_before < $5
      )
      update deliveries d
      set ${lease}
      from chosen c
      where d.received_at = c.received_at and d.id = c.id and d.webhook_id = c.webhook_id and d.state in ('pending', 'leased')
      returning ${leasedColumns('c.place', `(select ${millisecondsOf('min(since)')} from candidates)`, 'c.webhook_name')}`,
    values: [...values, ...days.values],
    place: { cell: order.cell },
  };
  return runClaim(query, statement, acks);
}
