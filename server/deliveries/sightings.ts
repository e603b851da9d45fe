/** Keeps when each agent was last seen, and from where: an operator tells a program that is idle from one that is gone. */
import type { Database } from '../db/pool.ts';
import { writeSighting } from '../db/queries/agent-activity.ts';

/** An agent that claims all the time is written once in this time by each process. */
const EVERY_MS = 60_000;

export class Sightings {
  readonly #database: Database;
  /** By agent, when this process wrote it last. There are as many as agents. */
  readonly #writtenMs = new Map<string, number>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** A request of the agent came from this address; nobody waits for it to be written. */
  note(agentId: string, address: string, nowMs: number): void {
    if (nowMs - (this.#writtenMs.get(agentId) ?? -Infinity) < EVERY_MS) return;
    this.#writtenMs.set(agentId, nowMs);
    writeSighting(this.#database, agentId, address).catch(() => this.#writtenMs.delete(agentId));
  }
}
