/** Agents as people manage them: every change is committed, announced, and waited for until the processes know. */
import { randomUUID } from 'node:crypto';
import { makeCredential } from '../core/credential.ts';
import type { Changes } from '../db/announce.ts';
import type { Database } from '../db/pool.ts';
import {
  type AgentRecord,
  insertAgent,
  listAgents,
  replaceCredential,
  revokeAgent,
} from '../db/queries/manage-agents.ts';
import type { Actor } from './actor.ts';
import { record } from './audit.ts';
import { checkName } from './input.ts';
import { subscribeAll } from './subscriptions.ts';

export interface AgentParts {
  database: Database;
  changes: Changes;
}

export class Agents {
  readonly #parts: AgentParts;
  readonly #actor: Actor;

  /** @param actor who makes the changes. */
  constructor(parts: AgentParts, actor: Actor) {
    this.#parts = parts;
    this.#actor = actor;
  }

  /** Makes an agent; its credential is shown this once. Throws InputError for a bad name or an unknown webhook. */
  async add(name: string, webhookIds: readonly string[]): Promise<AgentRecord & { credential: string }> {
    const id = randomUUID();
    const checked = checkName(name);
    const { text, ...stored } = makeCredential('wa');
    const agent = await this.#parts.changes.announced(`agent:${id}`, () =>
      this.#parts.database.transaction(async (query) => {
        await insertAgent(query, { id, name: checked, ...stored });
        await subscribeAll(
          query,
          webhookIds.map((webhookId) => ({ webhookId, agentId: id })),
        );
        const [made] = await listAgents({ query }, id);
        await record(query, this.#actor, { action: 'agent.create', target: targetOf(made!), after: made! });
        return made!;
      }),
    );
    return { ...agent, credential: text };
  }

  /** All agents, oldest first, revoked ones too. */
  list(): Promise<AgentRecord[]> {
    return listAgents(this.#parts.database, null);
  }

  /** A new credential, shown this once; the old one and every session end. Null when there is no such agent in force. */
  async rotate(id: string): Promise<string | null> {
    const { text, ...stored } = makeCredential('wa');
    return (await this.#change(id, 'rotate', (query) => replaceCredential(query, id, stored))) ? text : null;
  }

  /** False when there is no such agent in force. */
  revoke(id: string): Promise<boolean> {
    return this.#change(id, 'revoke', (query) => revokeAgent(query, id));
  }

  /** Makes a change to an agent in force and puts it on record. */
  #change(id: string, verb: string, work: (query: Database['query']) => Promise<boolean>): Promise<boolean> {
    return this.#parts.changes.announced(`agent:${id}`, () =>
      this.#parts.database.transaction(async (query) => {
        const [before] = await listAgents({ query }, id);
        if (before === undefined || !(await work(query))) return false;
        const [after] = await listAgents({ query }, id);
        await record(query, this.#actor, { action: `agent.${verb}`, target: targetOf(before), before, after: after! });
        return true;
      }),
    );
  }
}

function targetOf({ id, name }: AgentRecord): { kind: string; id: string; name: string } {
  return { kind: 'agent', id, name };
}
