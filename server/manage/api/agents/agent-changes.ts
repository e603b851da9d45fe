/** Agent management. A change resolves once it is committed, announced, and known to every process. */
import { randomUUID } from 'node:crypto';
import type { z } from 'zod';
import { invalid, mapped, ProblemError, problem, type Result } from '../../../base/http/problem.ts';
import type { AgentPatch, NewAgent, SubscriptionInput, undeliveredSettled } from '../../../model/agents.ts';
import { createCredential } from '../../../model/credential.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import type { Database, Query } from '../../../store/connect/pool.ts';
import {
  type AgentRecord,
  findAgent,
  insertAgent,
  isNameTaken,
  lockAgent,
  replaceCredential,
  revokeAgent,
  updateAgent,
} from '../../../store/queries/agents/agents.ts';
import { endSubscriptions, lockAgents } from '../../../store/queries/agents/subscriptions.ts';
import { dismissUndelivered, moveUndelivered } from '../../../store/queries/alerts/undelivered.ts';
import { ACTED_MAX } from '../../../store/queries/deliveries/actions.ts';
import { type AuditMembers, asItIs, type ChangeParts, Changer, type Expects } from '../change.ts';
import { endSubscription, setSubscription, setWebhooks } from './subscriptions.ts';

/** The credential is returned only here. */
type WithCredential = AgentRecord & { credential: string };

/** Only an active agent can be changed. */
export class Agents {
  readonly #changer: Changer<AgentRecord>;

  constructor(parts: ChangeParts, actor: Actor) {
    this.#changer = new Changer(parts, actor, {
      name: 'agent',
      nameOf: ({ name }) => name,
      unknown: 'agent_unknown',
      lock: lockAgent,
      find: findAgent,
    });
  }

  async add(given: NewAgent): Promise<Result<WithCredential>> {
    const { id = randomUUID(), name, webhook_ids, temporary = false, max_leased = null, paused = false } = given;
    const { text, ...stored } = createCredential('wa');
    const made = await this.#changer.create(id, async (query) => {
      await refuseTakenName(query, name, id);
      const isRestored = await insertAgent(query, { id, name, temporary, maxLeased: max_leased, paused, ...stored });
      if (isRestored === null) throw new ProblemError(problem('id_taken'));
      if (isRestored) await endSubscriptions(query, { agentId: id }, [], 'except');
      return { isRestored, more: await setWebhooks(query, id, webhook_ids) };
    });
    return mapped(made, (agent) => ({ ...agent, credential: text }));
  }

  /** Sets the given members; the others are unchanged. */
  update(id: string, { name, webhook_ids, max_leased, paused }: AgentPatch, expects: Expects<AgentRecord> = asItIs) {
    return this.#update(id, { name, maxLeased: max_leased, paused }, expects, async (query) =>
      webhook_ids === undefined ? {} : setWebhooks(query, id, webhook_ids),
    );
  }

  /** Subscribes the agent to the webhook, or changes the subscription. Filter and order: null removes it, undefined keeps it. */
  subscribe(
    id: string,
    webhookId: string,
    given: SubscriptionInput,
    expects: Expects<AgentRecord> = asItIs,
  ): Promise<Result<AgentRecord>> {
    return this.#update(id, {}, expects, (query) => setSubscription(query, id, webhookId, given));
  }

  unsubscribe(id: string, webhookId: string, expects: Expects<AgentRecord> = asItIs): Promise<Result<AgentRecord>> {
    return this.#update(id, {}, expects, (query) => endSubscription(query, id, webhookId));
  }

  /** Replaces the credential. The old one and its sessions stay valid for `overlapSeconds`; an earlier one ends at once. */
  async rotate(
    id: string,
    overlapSeconds = 0,
    expects: Expects<AgentRecord> = asItIs,
  ): Promise<Result<WithCredential>> {
    const { text, ...stored } = createCredential('wa');
    const replace = (query: Query) => replaceCredential(query, id, stored, overlapSeconds);
    const changed = await this.#changer.change(id, 'rotate', expects, replace);
    return mapped(changed, (agent) => ({ ...agent, credential: text }));
  }

  /** Revokes the agent permanently and keeps its deliveries. Maintenance deletes a temporary agent with its deliveries. */
  revoke(id: string, expects: Expects<AgentRecord> = asItIs): Promise<Result<AgentRecord>> {
    return this.#changer.change(id, 'revoke', expects, (query) => revokeAgent(query, id));
  }

  #update(
    id: string,
    given: Parameters<typeof updateAgent>[2],
    expects: Expects<AgentRecord>,
    work: (query: Query) => Promise<AuditMembers>,
  ): Promise<Result<AgentRecord>> {
    return this.#changer.change(id, 'update', expects, async (query) => {
      if (given.name !== undefined) await refuseTakenName(query, given.name, id);
      await updateAgent(query, id, given);
      return work(query);
    });
  }
}

/** Agents are identified by name on pages and in commands. Throws ProblemError. */
async function refuseTakenName(query: Query, name: string, id: string): Promise<void> {
  if (await isNameTaken(query, name, id)) throw new ProblemError(problem('name_taken'));
}

type Settled = z.input<typeof undeliveredSettled>;

/**
 * Dismisses the unfinished deliveries of a revoked agent, or moves them to an active one, at most ACTED_MAX a call. A delivery of an event
 * that the other agent already has cannot be moved: the last call dismisses it.
 * @param toAgentId null: dismiss them
 */
export function settleUndelivered(
  database: Database,
  actor: Actor,
  id: string,
  toAgentId: string | null,
): Promise<Result<Settled>> {
  return database.transaction(async (query): Promise<Result<Settled>> => {
    // Wait for a restore of the agent in another transaction: a restored agent keeps its deliveries.
    await lockAgents(query);
    const agent = await findAgent(query, id);
    if (agent === undefined) return problem('agent_unknown', 'No agent has this id.');
    if (!agent.revoked) return problem('agent_active');
    if (toAgentId !== null && !(await lockAgent(query, toAgentId)))
      return invalid('/to_agent_id', 'No active agent has this id.');
    const moved = toAgentId === null ? 0 : await moveUndelivered({ query }, id, toAgentId);
    const actionId = randomUUID();
    // After the last move, the deliveries left are of events that the other agent already has.
    const dismissed = moved >= ACTED_MAX ? 0 : await dismissUndelivered({ query }, id, actionId);
    const settled = moved + dismissed;
    const undone = dismissed > 0 ? actionId : null;
    if (settled > 0)
      await record(query, actor, {
        action: toAgentId === null ? 'delivery.dismiss' : 'delivery.move',
        target: { kind: 'agent', id, name: agent.name },
        after: {
          state: 'undelivered',
          ...(toAgentId === null ? {} : { to_agent_id: toAgentId, moved }),
          dismissed,
          action_id: undone,
        },
      });
    return {
      kind: 'done',
      value: { settled, more: moved >= ACTED_MAX || dismissed >= ACTED_MAX, action_id: undone },
    };
  });
}
