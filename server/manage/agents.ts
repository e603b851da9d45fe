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
  subscribe,
} from '../db/queries/manage-agents.ts';
import { checkName, InputError } from './input.ts';

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

/** Throws InputError that names a webhook or an agent that does not exist. */
export async function subscribeAll(
  query: Database['query'],
  pairs: readonly { webhookId: string; agentId: string }[],
): Promise<void> {
  const { webhookIds, agentIds } = await subscribe(query, pairs);
  if (webhookIds.length > 0) throw new InputError(`no webhook has the id ${webhookIds[0]}; see: weir webhook list`);
  if (agentIds.length > 0) throw new InputError(`no agent in force has the id ${agentIds[0]}; see: weir agent list`);
}
