/** Changes to subscriptions of agents to webhooks. Each returns what the audit entry says of it. */

import { invalid, ProblemError, problem } from '../../../base/http/problem.ts';
import type { Query } from '../../../store/connect/pool.ts';
import { touchAgents } from '../../../store/queries/agents/agents.ts';
import {
  endSubscriptions,
  findMissing,
  insertSubscriptions,
  readFilter,
  type Subscription,
  updateFilter,
} from '../../../store/queries/agents/subscriptions.ts';
import type { AuditMembers } from '../change.ts';

/** Limit on the subscriptions that an audit entry names: an agent may lose thousands at once. */
const AUDITED_MAX = 100;

/** Subscribes exactly these agents to the webhook. Throws ProblemError with the first agent that is not active. */
export async function setAgents(query: Query, webhookId: string, agentIds: readonly string[]): Promise<void> {
  await requireAgents(query, agentIds);
  const ended = await endSubscriptions(query, { webhookId }, agentIds, 'except');
  const added = await insertSubscriptions(query, { webhookIds: [webhookId], agentIds });
  const changed = [...ended, ...added].map(({ agent_id }) => agent_id);
  if (changed.length > 0) await touchAgents(query, changed);
}

/** Subscribes the agent to exactly these webhooks. Throws ProblemError with the first webhook that does not exist. */
export async function setWebhooks(query: Query, agentId: string, webhookIds: readonly string[]): Promise<AuditMembers> {
  await requireWebhooks(query, webhookIds);
  const ended = await endSubscriptions(query, { agentId }, webhookIds, 'except');
  return audited(ended, await insertSubscriptions(query, { webhookIds, agentIds: [agentId] }));
}

/**
 * Subscribes the agent to the webhook as well. Throws ProblemError when the webhook does not exist.
 * @param filter null: without one; undefined: an existing subscription keeps its filter
 */
export async function setSubscription(
  query: Query,
  agentId: string,
  webhookId: string,
  filter: string | null | undefined,
): Promise<AuditMembers> {
  const [missing] = (await findMissing(query, { webhookIds: [webhookId], agentIds: [] })).webhooks;
  if (missing !== undefined) throw new ProblemError(problem('webhook_unknown', `No webhook has the id ${webhookId}.`));
  const pair = { webhookId, agentId };
  const before = await readFilter(query, pair);
  if (before === undefined) await insertSubscriptions(query, { webhookIds: [webhookId], agentIds: [agentId] });
  if (filter !== undefined) await updateFilter(query, pair, filter);
  const after = filter === undefined ? (before ?? null) : filter;
  const one = (filter: string | null): Subscription => ({ webhook_id: webhookId, agent_id: agentId, filter });
  return audited(before === undefined ? [] : [one(before)], [one(after)]);
}

/** Ends the subscription to the webhook, if there is one. */
export async function endSubscription(query: Query, agentId: string, webhookId: string): Promise<AuditMembers> {
  return audited(await endSubscriptions(query, { agentId }, [webhookId], 'among'), []);
}

function audited(ended: readonly Subscription[], added: readonly Subscription[]): AuditMembers {
  const members = (all: readonly Subscription[]) => ({
    subscriptions: {
      changed: all.length,
      first: all.slice(0, AUDITED_MAX).map(({ webhook_id, filter }) => ({ webhook_id, filter })),
    },
  });
  return ended.length + added.length === 0 ? {} : { before: members(ended), after: members(added) };
}

async function requireAgents(query: Query, agentIds: readonly string[]): Promise<void> {
  const [index] = (await findMissing(query, { webhookIds: [], agentIds })).agents;
  if (index !== undefined)
    throw new ProblemError(invalid(`/agent_ids/${index}`, `No active agent has the id ${agentIds[index]}.`));
}

async function requireWebhooks(query: Query, webhookIds: readonly string[]): Promise<void> {
  const [index] = (await findMissing(query, { webhookIds, agentIds: [] })).webhooks;
  if (index !== undefined)
    throw new ProblemError(invalid(`/webhook_ids/${index}`, `No webhook has the id ${webhookIds[index]}.`));
}
