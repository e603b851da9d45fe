/** Subscriptions of agents to webhooks. */
import { randomBytes } from 'node:crypto';
import { advisoryLocks, takeLock } from '../../advisory-locks.ts';
import type { Queries, Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';

interface Pairs {
  webhookIds: readonly string[];
  agentIds: readonly string[];
}

/** A filter is suspended after this number of slow events, each within an hour of the one before. */
export const FILTER_SLOW_MAX = 3;
const SLOW_FORGOTTEN = `interval '1 hour'`;
/** Length of a suspension, from the last slow event. The next slow event within an hour suspends the filter again. */
const SUSPENDED_FOR = `interval '10 minutes'`;

/** SQL: when the filter of the subscription `s` judges again; null: it is not suspended. */
export const suspendedUntil = (s: string) =>
  `case when ${s}.filter_slow >= ${FILTER_SLOW_MAX} and ${s}.filter_slow_at > now() - ${SUSPENDED_FOR} then ${s}.filter_slow_at + ${SUSPENDED_FOR} end`;

/** SQL assignments that add `slow` (SQL) events to those of the subscription `s`. */
export const addSlow = (s: string, slow: string) => `
  filter_slow = case when ${slow} = 0 or ${s}.filter_slow_at > now() - ${SLOW_FORGOTTEN} then ${s}.filter_slow else 0 end + ${slow},
  filter_slow_at = case when ${slow} = 0 then ${s}.filter_slow_at else now() end`;

/**
 * SQL: the webhooks of which the agent may have deliveries, each once, with the filter that judges them (null: none) and whether it is
 * suspended.
 * @param agentId SQL expression
 */
export function subscribedWebhooks(agentId: string): string {
  return `(
    select webhook_id, filter, ${suspendedUntil('s')} is not null as suspended from subscriptions s where agent_id = ${agentId}
    union all
    select webhook_id, filter, ${suspendedUntil('t')} is not null from replay_targets t
    where agent_id = ${agentId}
      and not exists (select from subscriptions s where s.webhook_id = t.webhook_id and s.agent_id = t.agent_id)
  )`;
}

/** SQL condition: one of these webhooks has a filter. @param agentId SQL expression of the agent's id */
export function hasFilters(agentId: string): string {
  const has = (table: string) => `exists (select from ${table} where agent_id = ${agentId} and filter is not null)`;
  return `(${has('subscriptions')} or ${has('replay_targets')})`;
}

/** Reads the subscriptions of these webhooks, as pairs of ids. Includes revoked agents. */
export function readSubscribers(
  { query }: Queries,
  webhookIds: Iterable<string>,
): Promise<{ webhookId: string; agentId: string }[]> {
  return query({
    name: 'read-subscribers',
    plan: 'keyed',
    text: 'select webhook_id as "webhookId", agent_id as "agentId" from subscriptions where webhook_id = any ($1::uuid[])',
    values: [arrayOf(webhookIds)],
  });
}

/** Reads the webhooks of an agent that are not deleted, oldest first, up to `max`. */
export function readWebhooksOf(
  { query }: Queries,
  agentId: string,
  max: number,
): Promise<{ id: string; name: string; signature_scheme: string; has_secret: boolean }[]> {
  return query({
    text: `select w.id, w.name, w.signature_scheme,
        (select count(*) > 0 from webhook_secrets x where x.webhook_id = w.id and x.slot = 'current') as has_secret
      from subscriptions s join webhooks w on w.id = s.webhook_id
      where s.agent_id = $1 and w.deleted_at is null order by w.created_at, w.id limit $2`,
    values: [agentId, max],
  });
}

const isPresent = {
  webhooks: 'select from webhooks w where w.id = p.id and w.deleted_at is null',
  agents: 'select from agents a where a.id = p.id and a.revoked_at is null',
};

/** Returns the index of the first webhook that does not exist, or agent that is not active. */
export async function findMissing(
  query: Query,
  of: keyof typeof isPresent,
  ids: readonly string[],
): Promise<number | undefined> {
  const [missing] = await query<{ index: number }>({
    text: `select (place - 1)::int as index from unnest($1::uuid[]) with ordinality p (id, place)
           where not exists (${isPresent[of]}) order by place limit 1`,
    values: [arrayOf(ids)],
  });
  return missing?.index;
}

/** Locks agents and subscriptions against changes until the transaction ends. Taken before the row of an agent is locked. */
export async function lockAgents(query: Query): Promise<void> {
  await takeLock(query, advisoryLocks.agents);
}

/** A subscription that a change created, changed or ended. */
export interface Subscription {
  webhook_id: string;
  agent_id: string;
  filter: string | null;
  order_by: string | null;
}

/** Subscribes each agent to each webhook; existing subscriptions are kept. Returns the new ones. */
export async function insertSubscriptions(query: Query, { webhookIds, agentIds }: Pairs): Promise<Subscription[]> {
  await lockAgents(query);
  return query<Subscription>({
    text: `insert into subscriptions (webhook_id, agent_id)
           select webhook_id, agent_id from unnest($1::uuid[]) webhook_id, unnest($2::uuid[]) agent_id
           on conflict do nothing
           returning webhook_id, agent_id, filter, order_by`,
    values: [arrayOf(webhookIds), arrayOf(agentIds)],
  });
}

/** Reads a subscription; undefined: the agent is not subscribed. */
export async function readSubscription(
  query: Query,
  { webhookId, agentId }: { webhookId: string; agentId: string },
): Promise<Subscription | undefined> {
  const [row] = await query<Subscription>({
    text: 'select webhook_id, agent_id, filter, order_by from subscriptions where webhook_id = $1 and agent_id = $2',
    values: [webhookId, agentId],
  });
  return row;
}

/** SQL: the orders of a webhook, as JSON; null: it has none. @param webhookId SQL expression */
export const ordersOf = (webhookId: string) => `(
  select json_agg(distinct jsonb_build_object('orderBy', o.order_by, 'id', o.order_id::text))
  from subscriptions o where o.webhook_id = ${webhookId} and o.order_by is not null)`;

/**
 * Sets the `order_by` of a subscription; null: none. Equal values of a webhook share an id, so call it with the lock of lockAgents. Returns
 * the number of distinct values of the webhook.
 */
export async function updateOrder(
  query: Query,
  { webhookId, agentId }: { webhookId: string; agentId: string },
  orderBy: string | null,
): Promise<number> {
  await query({
    text: `update subscriptions set order_by = $3, order_id = case when $3::text is not null then coalesce(
             (select o.order_id from subscriptions o where o.webhook_id = $1 and o.order_by = $3 limit 1), $4::bigint) end
           where webhook_id = $1 and agent_id = $2 and order_by is distinct from $3`,
    values: [webhookId, agentId, orderBy, String(randomBytes(8).readBigInt64BE())],
  });
  const [row] = await query<{ orders: number }>({
    text: 'select count(distinct order_by)::int as orders from subscriptions where webhook_id = $1',
    values: [webhookId],
  });
  return row!.orders;
}

/** Sets the filter of a subscription; null: none. Forgets the failures of the previous filter, and ends its suspension. */
export async function updateFilter(
  query: Query,
  { webhookId, agentId }: { webhookId: string; agentId: string },
  filter: string | null,
): Promise<void> {
  await query({
    text: `update subscriptions set filter = $3, filter_failures = 0, filter_failure = null, filter_failed_at = null,
             filter_slow = 0, filter_slow_at = null
           where webhook_id = $1 and agent_id = $2 and (filter is distinct from $3 or filter_slow > 0)`,
    values: [webhookId, agentId, filter],
  });
}

/**
 * Ends subscriptions of a webhook or an agent, and returns them. No new events follow, but waiting deliveries that pass the filter stay
 * claimable: claims also read replay_targets.
 * @param otherIds agents of the webhook, or webhooks of the agent
 * @param which `among`: the subscriptions with `otherIds` end; `except`: all others end
 */
export async function endSubscriptions(
  query: Query,
  of: { webhookId: string } | { agentId: string },
  otherIds: readonly string[],
  which: 'among' | 'except',
): Promise<Subscription[]> {
  const [own, other, id] =
    'webhookId' in of ? ['webhook_id', 'agent_id', of.webhookId] : ['agent_id', 'webhook_id', of.agentId];
  await lockAgents(query);
  return query<Subscription>({
    text: `
      with ended as (
        delete from subscriptions where ${own} = $1 and ${which === 'among' ? '' : 'not '}${other} = any ($2::uuid[])
        returning agent_id, webhook_id, filter, filter_slow, filter_slow_at, order_by
      ), targets as (
        insert into replay_targets (agent_id, webhook_id, filter, filter_slow, filter_slow_at)
        select agent_id, webhook_id, filter, filter_slow, filter_slow_at from ended
        on conflict (agent_id, webhook_id) do update
        set filter = excluded.filter, filter_slow = excluded.filter_slow, filter_slow_at = excluded.filter_slow_at
      )
      select webhook_id, agent_id, filter, order_by from ended order by webhook_id`,
    values: [id, arrayOf(otherIds)],
  });
}

/** The webhooks of an agent, by id. `after`: id of the last webhook of the previous page. */
export function listAgentWebhooks(
  { query }: Queries,
  agentId: string,
  { webhookId, filtered }: { webhookId: string | null; filtered: boolean | null },
  after: string | null,
  limit: number,
): Promise<{ id: string; name: string; filter: string | null; order_by: string | null }[]> {
  return query({
    text: `
      select s.webhook_id as id, w.name, s.filter, s.order_by
      from subscriptions s join webhooks w on w.id = s.webhook_id
      where s.agent_id = $1 and w.deleted_at is null
        ${filtered === null ? '' : `and s.filter is ${filtered ? 'not ' : ''}null`}
        and ($2::uuid is null or s.webhook_id = $2) and ($3::uuid is null or s.webhook_id > $3)
      order by s.webhook_id
      limit $4`,
    values: [agentId, webhookId, after, limit],
  });
}
