/** Subscriptions of agents to webhooks. */

import { invalid, ProblemError, problem } from '../../../base/http/problem.ts';
import type { Query } from '../../../store/connect/pool.ts';
import {
  deleteOtherSubscriptions,
  findMissing,
  insertSubscriptions,
  updateFilter,
} from '../../../store/queries/agents/subscriptions.ts';

/** Subscribes exactly these agents to the webhook. Throws ProblemError with the first agent that is not active. */
export async function setAgents(query: Query, webhookId: string, agentIds: readonly string[]): Promise<void> {
  await requireAgents(query, agentIds);
  await deleteOtherSubscriptions(query, { webhookId }, agentIds);
  await insertSubscriptions(query, { webhookIds: [webhookId], agentIds });
}

/** Subscribes the agent to exactly these webhooks. Throws ProblemError with the first webhook that does not exist. */
export async function setWebhooks(query: Query, agentId: string, webhookIds: readonly string[]): Promise<void> {
  await requireWebhooks(query, webhookIds);
  await deleteOtherSubscriptions(query, { agentId }, webhookIds);
  await insertSubscriptions(query, { webhookIds, agentIds: [agentId] });
}

/** Subscribes the agent to the webhook as well, with this filter; null: without one. Throws ProblemError when the webhook does not exist. */
export async function setSubscription(
  query: Query,
  agentId: string,
  webhookId: string,
  filter: string | null,
): Promise<void> {
  const [missing] = (await findMissing(query, { webhookIds: [webhookId], agentIds: [] })).webhooks;
  if (missing !== undefined) throw new ProblemError(problem('webhook_unknown', `No webhook has the id ${webhookId}.`));
  await insertSubscriptions(query, { webhookIds: [webhookId], agentIds: [agentId] });
  await updateFilter(query, { webhookId, agentId }, filter);
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
