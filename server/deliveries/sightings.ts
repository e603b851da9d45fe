/** Stores when and from which address each agent was last seen, so that an operator can tell an idle agent from a stopped one. */
import type { Database } from '../db/pool.ts';
import { recordAgentSeen } from '../db/queries/agents.ts';

/** Each process writes an agent at most once per interval. */
const EVERY_MS = 60_000;

export class Sightings {
  readonly #database: Database;
  /** Time of the last write of this process, by agent id. Bounded by the number of agents. */
  readonly #writtenMs = new Map<string, number>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** Reports a request of the agent from this address. The write is not awaited. */
  note(agentId: string, address: string, nowMs: number): void {
    if (nowMs - (this.#writtenMs.get(agentId) ?? -Infinity) < EVERY_MS) return;
    this.#writtenMs.set(agentId, nowMs);
    recordAgentSeen(this.#database, agentId, address).catch(() => this.#writtenMs.delete(agentId));
  }
}
