/**
 * SQL of the deliveries that a claim takes next: of the agent's webhooks in turn, of one webhook, or those that filters have let through.
 * Round-robin over webhooks: the first delivery of each (by `available_at`), then the second of each, and so on. `place` is the position in that
 * round. The next claim continues after the webhook at which the last one ended. What is locked by another claim is skipped. Costs, and what was
 * tried instead: bench/NOTES.md, "Claims beside the least queue".
 */
import { uuidv7Time } from '../../ids.ts';
import { arrayOf, type Placeholders } from '../../sql.ts';
import { subscribedWebhooks } from '../agents/subscriptions.ts';
import { isFirst } from './held.ts';
import type { ClaimOrder } from './order.ts';
import { due } from './room.ts';

/** What the statement around it has: placeholders, and SQL of more conditions on the deliveries. */
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

/** For an agent with deliveries of one webhook: without a round over webhooks, a third of the processor time of a claim of one. */
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

/** @param ids in the order of the claim, and at most as many as it may take: all of them are locked */
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

/** The deliveries of several webhooks in turn. A claim of an agent of many webhooks does not look at all of them. */
export function nextInRound(given: Placeholders, order: ClaimOrder, terms: Terms): string {
  const round = roundOf(given, order, terms);
  const listed = order.hasManyWebhooks ? firstOfMany(round) : dueInTurn(round);
  return inTurn(round, listed, { share: shareOfDue(terms.max, 's.of_all'), lock: 'for update skip locked' });
}

/** The deliveries in turn, without locks, each with its filter and what the filter reads. @param ofDelivery SQL of more columns */
export function peekInRound(given: Placeholders, order: ClaimOrder, terms: Terms, ofDelivery: string): string {
  const round = roundOf(given, order, terms);
  const listed = `(select * from ${subscribedWebhooks(round.agentId)} w where ${round.isAsked('webhook_id')})`;
  return inTurn(round, listed, {
    share: shareOf(terms.max, 's.of_all'),
    ofWebhook: ', s.filter, s.suspended',
    ofDelivery,
  });
}

interface RoundTerms extends Terms, Pick<ClaimOrder, 'isOrdered'> {
  /** Placeholders, see ClaimOrder. */
  from: string;
  after: string;
  /** SQL condition: the order asks for this webhook. */
  isAsked: (webhookId: string) => string;
}

function roundOf(given: Placeholders, order: ClaimOrder, terms: Terms): RoundTerms {
  const [from, after] = [given.of(order.claimableFrom, 'timestamptz'), given.of(order.afterWebhookId, 'uuid')];
  const asked = given.of(order.webhookIds && arrayOf(order.webhookIds), 'uuid[]');
  return {
    ...terms,
    isOrdered: order.isOrdered,
    from,
    after,
    isAsked: (webhookId) => `(${asked} is null or ${webhookId} = any (${asked}))`,
  };
}

/** `since`: since when the oldest delivery of all webhooks of the agent can be claimed. @param listed SQL of the webhooks */
function inTurn(
  { agentId, max, only, from, after, isOrdered }: RoundTerms,
  listed: string,
  {
    share,
    lock = '',
    ofWebhook = '',
    ofDelivery = '',
  }: { share: string; lock?: string; ofWebhook?: string; ofDelivery?: string },
): string {
  return `
    with candidates as materialized (
      select d.*, w.name as webhook_name, (select min(available_at) ${due(agentId)} and available_at >= ${from}) as since${ofWebhook}
      from (select *, count(*) over () as of_all from ${listed} l) s
      join webhooks w on w.id = s.webhook_id
      cross join lateral (
        select ${columns}${ofDelivery}
        from deliveries
        where agent_id = ${agentId} and webhook_id = s.webhook_id and ${claimable(from)} ${only}${andFirst('deliveries', { isOrdered })}
        order by available_at
        limit ${share}
        ${lock}
      ) d
    )
    select *, row_number() over (order by turn, webhook_id <= ${after}, webhook_id) as place
    from (select *, row_number() over (partition by webhook_id order by available_at, event_id) as turn from candidates) t
    order by place
    limit ${max}`;
}

/**
 * Minimum of the limit on the rows that a claim reads per webhook: of a flooded webhook among many empty ones, one claim gets only this many.
 * Without a limit, an agent that was behind in 280 webhooks locked all of their 28,800 rows to get 1,000.
 */
export const EACH_MIN = 32;

/** SQL: limit on the deliveries of one webhook in a claim of `max`. @param webhooks SQL expression of their number */
function shareOf(max: string, webhooks: string): string {
  return `least(${max}, greatest(${EACH_MIN}, ceil(4.0 * ${max} / ${webhooks})))`;
}

/**
 * SQL: the same limit if each of the webhooks has a delivery to claim: a claim returns one of each before a second one. A claim of 100 that locked
 * and sorted 18 of each of 100 webhooks took twice the processor time.
 */
function shareOfDue(max: string, webhooks: string): string {
  return `least(${shareOf(max, webhooks)}, greatest(1, 1 + ${max} - ${webhooks}))`;
}

/** SQL that has a row for a webhook that has something to claim. */
const ifDue = ({ agentId, from, isOrdered }: RoundTerms) => `
  cross join lateral (
    select from deliveries d
    where d.agent_id = ${agentId} and d.webhook_id = w.webhook_id and ${claimable(from)}${andFirst('d', { isOrdered })}
    order by d.available_at
    limit 1
  ) due`;

/** Webhooks that a claim looks at beyond those that can fill it: another statement may have locked all deliveries of some. */
const SPARE_WEBHOOKS = 10;

/** SQL: the first webhooks of the round that have something to claim. A claim that locked deliveries of all of 100 took three times as long. */
const dueInTurn = (round: RoundTerms) => `(
  select w.webhook_id
  from (
    select webhook_id from ${subscribedWebhooks(round.agentId)} s
    where ${round.isAsked('webhook_id')}
    order by webhook_id <= ${round.after}, webhook_id
  ) w
  ${ifDue(round)}
  limit ${round.max} + ${SPARE_WEBHOOKS}
)`;

const FIRST = `'00000000-0000-0000-0000-000000000000'::uuid`;

/**
 * SQL: the same for an agent of many webhooks, found without a look at each: one with 10,000 read 10,000 index entries when it had no
 * delivery. Not for few webhooks: the search reads all entries of a webhook that are finished, where ifDue begins at `from`.
 */
function firstOfMany(round: RoundTerms): string {
  const next = (after: string, upTo = '') => `
    select d.webhook_id from deliveries d
    where d.agent_id = ${round.agentId} and d.state in ('pending', 'leased') and d.webhook_id > ${after} ${upTo}
    order by d.webhook_id limit 1`;
  const upToLast = `and d.webhook_id <= ${round.after}`;
  const chain = (name: string, first: string, upTo = '') => `${name} as (
      (${next(first, upTo)})
      union all
      select (${next('l.webhook_id', upTo)}) from ${name} l where l.webhook_id is not null
    )`;
  return `(
    with recursive ${chain('later', `coalesce(${round.after}, ${FIRST})`)}, ${chain('sooner', FIRST, upToLast)}
    select w.webhook_id
    from (select webhook_id from later union all select webhook_id from sooner) w
    cross join lateral (
      (select from subscriptions s where s.webhook_id = w.webhook_id and s.agent_id = ${round.agentId} order by s.webhook_id limit 1)
      union all
      (select from replay_targets t where t.agent_id = ${round.agentId} and t.webhook_id = w.webhook_id order by t.webhook_id limit 1)
      limit 1
    ) subscribed
    ${ifDue(round)}
    where ${round.isAsked('w.webhook_id')}
    limit ${round.max}
  )`;
}
