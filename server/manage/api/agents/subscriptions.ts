/** Changes to subscriptions of agents to webhooks. A change of one agent returns the members of its audit entry. */
import { invalid, type Problem, ProblemError, problem } from '../../../base/http/problem.ts';
import type { SubscriptionInput } from '../../../model/agents.ts';
import { normalOrderBy, ORDERS_MAX, orderByFault } from '../../../model/order-by.ts';
import { schemeOf } from '../../../model/signatures/presets.ts';
import type { Query } from '../../../store/connect/pool.ts';
import { touchAgents } from '../../../store/queries/agents/agents.ts';
import {
  endSubscriptions,
  findMissing,
  insertSubscriptions,
  readSubscription,
  type Subscription,
  updateFilter,
  updateOrder,
} from '../../../store/queries/agents/subscriptions.ts';
import { findWebhook, type WebhookRecord } from '../../../store/queries/webhooks/webhooks.ts';
import type { AuditMembers } from '../change.ts';

/** Limit on the subscriptions that an audit entry names: an agent may lose thousands at once. */
const AUDITED_MAX = 100;

/** Subscribes exactly these agents to the webhook. Throws ProblemError with the first agent that is not active. */
export async function setAgents(query: Query, webhookId: string, agentIds: readonly string[]): Promise<void> {
  await requireAll(query, 'agents', agentIds);
  const ended = await endSubscriptions(query, { webhookId }, agentIds, 'except');
  const added = await insertSubscriptions(query, { webhookIds: [webhookId], agentIds });
  const changed = [...ended, ...added].map(({ agent_id }) => agent_id);
  if (changed.length > 0) await touchAgents(query, changed);
}

/** Subscribes the agent to exactly these webhooks. Throws ProblemError with the first webhook that does not exist. */
export async function setWebhooks(query: Query, agentId: string, webhookIds: readonly string[]): Promise<AuditMembers> {
  await requireAll(query, 'webhooks', webhookIds);
  const ended = await endSubscriptions(query, { agentId }, webhookIds, 'except');
  return audited(ended, await insertSubscriptions(query, { webhookIds, agentIds: [agentId] }));
}

/**
 * Adds the subscription of the agent to the webhook, or changes it. Throws ProblemError when the webhook does not exist, or its events
 * cannot be ordered by `order_by`.
 * @param given filter and order; null: none; undefined: an existing subscription keeps its own
 */
export async function setSubscription(
  query: Query,
  agentId: string,
  webhookId: string,
  given: SubscriptionInput,
): Promise<AuditMembers> {
  if ((await findMissing(query, 'webhooks', [webhookId])) !== undefined)
    throw new ProblemError(problem('webhook_unknown', `No webhook has the id ${webhookId}.`));
  const pair = { webhookId, agentId };
  const before = await readSubscription(query, pair);
  if (before === undefined) await insertSubscriptions(query, { webhookIds: [webhookId], agentIds: [agentId] });
  if (given.filter !== undefined) await updateFilter(query, pair, given.filter);
  if (given.order_by !== undefined) await setOrder(query, pair, given.order_by);
  return audited(before === undefined ? [] : [before], [(await readSubscription(query, pair))!]);
}

async function setOrder(
  query: Query,
  pair: { webhookId: string; agentId: string },
  orderBy: string | null,
): Promise<void> {
  const text = orderBy && normalOrderBy(orderBy);
  if (text !== null) refuseOrder(orderByFault(text, signatureHeadersOf((await findWebhook(query, pair.webhookId))!)));
  if ((await updateOrder(query, pair, text)) > ORDERS_MAX)
    refuseOrder(`The subscriptions of the webhook have ${ORDERS_MAX} others, which is the limit: use one of them.`);
}

function refuseOrder(detail: string | null): void {
  if (detail !== null) throw new ProblemError(orderByProblem(detail));
}

/** The problem of an `order_by` that cannot be used. */
export function orderByProblem(detail: string): Problem {
  return problem('order_by_invalid', detail, { errors: [{ pointer: '/order_by', detail }] });
}

function signatureHeadersOf(webhook: WebhookRecord): readonly string[] {
  return schemeOf({
    signatureScheme: webhook.signature_scheme,
    schemeDefinition: webhook.scheme_definition,
    signatureHeader: webhook.signature_header,
    toleranceSeconds: webhook.tolerance_seconds,
    publicKey: webhook.public_key,
  }).headers;
}

/** Ends the subscription to the webhook. Without one, nothing changes. */
export async function endSubscription(query: Query, agentId: string, webhookId: string): Promise<AuditMembers> {
  return audited(await endSubscriptions(query, { agentId }, [webhookId], 'among'), []);
}

function audited(ended: readonly Subscription[], added: readonly Subscription[]): AuditMembers {
  const members = (all: readonly Subscription[]) => ({
    subscriptions: {
      changed: all.length,
      first: all.slice(0, AUDITED_MAX).map(({ agent_id: _, ...subscription }) => subscription),
    },
  });
  return ended.length + added.length === 0 ? {} : { before: members(ended), after: members(added) };
}

async function requireAll(query: Query, of: 'webhooks' | 'agents', ids: readonly string[]): Promise<void> {
  const index = await findMissing(query, of, ids);
  if (index === undefined) return;
  const [member, one] = of === 'agents' ? ['agent_ids', 'active agent'] : ['webhook_ids', 'webhook'];
  throw new ProblemError(invalid(`/${member}/${index}`, `No ${one} has the id ${ids[index]}.`));
}
