/** Agent management. A change resolves once it is committed, announced, and known to every process. */
import { randomUUID } from 'node:crypto';
import { ProblemError, problem, type Result } from '../../../base/http/problem.ts';
import type { AgentPatch, NewAgent, SubscriptionInput } from '../../../model/agents.ts';
import { createCredential } from '../../../model/credential.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import type { Query } from '../../../store/connect/pool.ts';
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
import { endSubscriptions } from '../../../store/queries/agents/subscriptions.ts';
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
    return shown(made, text);
  }

  /** Sets the given members; the others are unchanged. */
  update(id: string, { name, webhook_ids, max_leased, paused }: AgentPatch, expects: Expects<AgentRecord> = asItIs) {
    return this.#update(id, { name, maxLeased: max_leased, paused }, expects, async (query) =>
      webhook_ids === undefined ? {} : setWebhooks(query, id, webhook_ids),
    );
  }

  /** Subscribes the agent to the webhook, with this filter and order instead of its present ones; null: without; undefined: unchanged. */
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

  /** Creates a new credential; the old one and its sessions end after `overlapSeconds`, and those before it at once. */
  async rotate(
    id: string,
    overlapSeconds = 0,
    expects: Expects<AgentRecord> = asItIs,
  ): Promise<Result<WithCredential>> {
    const { text, ...stored } = createCredential('wa');
    const replace = (query: Query) => replaceCredential(query, id, stored, overlapSeconds);
    return shown(await this.#changer.change(id, 'rotate', expects, replace), text);
  }

  /** Permanent; the agent's deliveries are kept. A temporary agent disappears, and maintenance deletes it with its deliveries. */
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

function shown(change: Result<AgentRecord>, credential: string): Result<WithCredential> {
  return change.kind === 'done' ? { kind: 'done', value: { ...change.value, credential } } : change;
}
