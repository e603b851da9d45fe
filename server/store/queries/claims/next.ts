/**
 * SQL of the deliveries that a claim takes next: of the agent's webhooks in turn, of one webhook, or those that filters have let through.
 * Round-robin over webhooks: the first delivery of each (by `available_at`), then the second of each, and so on. `place` is the position in
 * that round. The next claim continues after the webhook at which the last one ended. Deliveries locked by another claim are skipped, and
 * so is a webhook whose deliveries are all locked. Costs and rejected alternatives: bench/NOTES.md, "Claims beside the least queue".
 */
import { uuidv7Time } from '../../ids.ts';
import { arrayOf, type Placeholders } from '../../sql.ts';
import { subscribedWebhooks } from '../agents/subscriptions.ts';
import { isFirst } from './held.ts';
import type { ClaimOrder } from './order.ts';
import { due } from './room.ts';

/** Parts of the surrounding statement: placeholders, and SQL of more conditions on the deliveries. */
interface Terms {
  agentId: string;
  max: string;
  only: string;
}

const columns = 'received_at, id, event_id, webhook_id, available_at, bytes, state';
/** SQL: and the delivery `d` is not held. */
const andFirst = (d: string, { isOrdered }: Pick<ClaimOrder, 'isOrdered'>) => (isOrdered ? ` and ${isFirst(d)}` : '');
/** SQL conditions of what can be claimed. @param from see ClaimOrder.claimableFrom */
const claimable = (from: string) =>
  `state in ('pending', 'leased') and available_at <= now() and available_at >= ${from}`;

/** The deliveries of one webhook. Without a round over webhooks, a claim of one takes a third of the processor time. */
export function nextOfWebhook(given: Placeholders, order: ClaimOrder, webhookId: string, terms: Terms): string {
  const webhook = given.of(webhookId, 'uuid');
  return `
    select ${columns}, 1 as place, available_at as since, (select name from webhooks where id = ${webhook}) as webhook_name
    from deliveries
    where agent_id = ${terms.agentId} and webhook_id = ${webhook}
      and ${claimable(given.of(order.claimableFrom, 'timestamptz'))} ${terms.only}${andFirst('deliveries', order)}
    order by available_at
    limit ${terms.max}
    for update skip locked`;
}

/** The deliveries with these ids. @param ids in the order of the claim, and at most as many as it may take: all of them are locked */
export function nextOfIds(given: Placeholders, order: ClaimOrder, ids: readonly string[], terms: Terms): string {
  const [id, time] = [given.of(arrayOf(ids), 'uuid[]'), given.of(arrayOf(ids.map(uuidv7Time)), 'timestamptz[]')];
  return `
    select d.*, place, d.available_at as since, w.name as webhook_name
    from unnest(${id}, ${time}) with ordinality r (of_id, of_time, place)
    cross join lateral (
      select ${columns} from deliveries
      where received_at = r.of_time and id = r.of_id and (agent_id = ${terms.agentId}) is true
        and ${claimable(`'-infinity'`)} ${terms.only}${andFirst('deliveries', order)}
      limit 1
      for update skip locked
    ) d
    join webhooks w on w.id = d.webhook_id
    order by place
    limit ${terms.max}`;
}

/** The deliveries of several webhooks in turn. */
export function nextInRound(given: Placeholders, order: ClaimOrder, terms: Terms): string {
  return inTurn(given, order, terms, { share: shareOfDue(terms.max, 's.of_all'), lock: 'for update skip locked' });
}

/** The deliveries in turn, without locks, each with its filter and what the filter reads. @param ofDelivery SQL of more columns */
export function peekInRound(given: Placeholders, order: ClaimOrder, terms: Terms, ofDelivery: string): string {
  const share = shareOf(terms.max, 's.of_all');
  return inTurn(given, order, terms, { share, ofWebhook: ', filter, suspended', ofDelivery });
}

/**
 * The first deliveries of the first webhooks that have some to claim. `since`: since when the oldest delivery of all webhooks of the agent
 * can be claimed.
 * @param options SQL: limit on the deliveries of a webhook, their lock, and more columns of a webhook and of a delivery
 */
function inTurn(
  given: Placeholders,
  order: ClaimOrder,
  { agentId, max, only }: Terms,
  {
    share,
    lock = '',
    ofWebhook = '',
    ofDelivery = '',
  }: { share: string; lock?: string; ofWebhook?: string; ofDelivery?: string },
): string {
  const [from, after] = [given.of(order.claimableFrom, 'timestamptz'), given.of(order.afterWebhookId, 'uuid')];
  const asked = given.of(order.webhookIds && arrayOf(order.webhookIds), 'uuid[]');
  const webhooks = order.hasManyWebhooks ? withDeliveries(agentId, from, after) : subscribed(agentId, after);
  /** SQL: up to so many deliveries of a webhook. */
  const dueOf = (webhook: string, limit: string, selected: string) => `
    select ${selected} from deliveries d
    where d.agent_id = ${agentId} and d.webhook_id = ${webhook} and ${claimable(from)} ${only}${andFirst('d', order)}
    order by d.available_at
    limit ${limit}
    ${lock}`;
  return `
    with recursive ${webhooks}, due as (
      select w.webhook_id${ofWebhook}
      from in_turn w
      cross join lateral (${dueOf('w.webhook_id', '1', '')}) first
      where ${asked} is null or w.webhook_id = any (${asked})
      limit ${max}
    ), candidates as materialized (
      select d.*, w.name as webhook_name, (select min(available_at) ${due(agentId)} and available_at >= ${from}) as since${ofWebhook}
      from (select *, count(*) over () as of_all from due) s
      join webhooks w on w.id = s.webhook_id
      cross join lateral (${dueOf('s.webhook_id', share, `${columns}${ofDelivery}`)}) d
    )
    select *, row_number() over (order by turn, webhook_id <= ${after}, webhook_id) as place
    from (select *, row_number() over (partition by webhook_id order by available_at, event_id) as turn from candidates) t
    order by place
    limit ${max}`;
}

/** SQL of `in_turn`: the webhooks of the agent, from the one after `after` on. */
const subscribed = (agentId: string, after: string) =>
  `in_turn as (select * from ${subscribedWebhooks(agentId)} s order by webhook_id <= ${after}, webhook_id)`;

const FIRST = `'00000000-0000-0000-0000-000000000000'::uuid`;

/**
 * SQL of `in_turn` for an agent of many webhooks: the webhooks with deliveries, found from one to the next in the index, and only until the
 * claim is full. From the watermark on, finished deliveries are passed over in the index. With few webhooks it costs 0.05 ms more a claim.
 */
function withDeliveries(agentId: string, from: string, after: string): string {
  const next = (last: string, upTo: string) => `
    select d.webhook_id from deliveries d
    where d.agent_id = ${agentId} and d.state in ('pending', 'leased') and d.webhook_id > ${last} ${upTo} and d.available_at >= ${from}
    order by d.webhook_id limit 1`;
  const chain = (name: string, first: string, upTo = '') => `${name} as (
      (${next(first, upTo)})
      union all
      select (${next('l.webhook_id', upTo)}) from ${name} l where l.webhook_id is not null
    )`;
  return `${chain('later', `coalesce(${after}, ${FIRST})`)}, ${chain('sooner', FIRST, `and d.webhook_id <= ${after}`)}, in_turn as (
      select subscribed.*
      from (select webhook_id from later union all select webhook_id from sooner) w
      cross join lateral (select * from ${subscribedWebhooks(agentId)} s where s.webhook_id = w.webhook_id limit 1) subscribed
    )`;
}

/**
 * Least value of the limit on the rows that a claim reads per webhook. A claim gets no more than the limit from a flooded webhook among many
 * empty ones. Without a limit, an agent that was behind in 280 webhooks locked all of their 28,800 rows to get 1,000.
 */
export const EACH_MIN = 32;

/** SQL: limit on the deliveries of one webhook in a claim of `max`. @param webhooks SQL expression of their number */
function shareOf(max: string, webhooks: string): string {
  return `least(${max}, greatest(${EACH_MIN}, ceil(4.0 * ${max} / ${webhooks})))`;
}

/**
 * SQL: the same limit if each of the webhooks has a delivery to claim: a claim returns one of each before a second one. A claim of 100 that
 * locked and sorted 18 of each of 100 webhooks took twice the processor time.
 */
function shareOfDue(max: string, webhooks: string): string {
  return `least(${shareOf(max, webhooks)}, greatest(1, 1 + ${max} - ${webhooks}))`;
}
