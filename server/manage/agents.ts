/** Agents as people manage them: every change is committed, announced, and waited for until the processes know. */
import { randomUUID } from 'node:crypto';
import { makeCredential } from '../core/credential.ts';
import { announced } from '../db/announce.ts';
import type { Database } from '../db/pool.ts';
import {
  type AgentRecord,
  insertAgent,
  listAgents,
  replaceCredential,
  revokeAgent,
} from '../db/queries/manage-agents.ts';
import { checkName } from './input.ts';
import { subscribeAll } from './subscriptions.ts';

export class Agents {
  readonly #database: Database;
  readonly #conninfo: string;

  constructor(database: Database, conninfo: string) {
    this.#database = database;
    this.#conninfo = conninfo;
  }

  /** Makes an agent; its credential is shown this once. Throws InputError for a bad name or an unknown webhook. */
  async add(name: string, webhookIds: readonly string[]): Promise<AgentRecord & { credential: string }> {
    const id = randomUUID();
    const checked = checkName(name);
    const { text, ...stored } = makeCredential();
    await announced(this.#conninfo, `agent:${id}`, () =>
      this.#database.transaction(async (query) => {
        await insertAgent(query, { id, name: checked, ...stored });
        await subscribeAll(
          query,
          webhookIds.map((webhookId) => ({ webhookId, agentId: id })),
        );
      }),
    );
    const [agent] = await listAgents(this.#database, id);
    return { ...agent!, credential: text };
  }

  /** All agents, oldest first, revoked ones too. */
  list(): Promise<AgentRecord[]> {
    return listAgents(this.#database, null);
  }

  /** A new credential, shown this once; the old one and every session end. Null when there is no such agent in force. */
  async rotate(id: string): Promise<string | null> {
    const { text, ...stored } = makeCredential();
    return (await this.#change(id, (query) => replaceCredential(query, id, stored))) ? text : null;
  }

  /** False when there is no such agent in force. */
  revoke(id: string): Promise<boolean> {
    return this.#change(id, (query) => revokeAgent(query, id));
  }

  #change(id: string, work: (query: Database['query']) => Promise<boolean>): Promise<boolean> {
    return announced(this.#conninfo, `agent:${id}`, () => this.#database.transaction(work));
  }
}
