/**
 * Round robin over an agent's webhooks: remembers where the last claim ended, so that the next claim continues there. Each process
 * keeps its own position; each webhook still gets its share of the claims that a process serves.
 */

/** Agents in memory. At this number all positions are cleared, and each agent starts at its first webhook again. */
const AGENTS_MAX = 10_000;

export class Turns {
  readonly #last = new Map<string, string>();

  /** Id of the webhook at which the agent's last claim ended; null if unknown. */
  last(agentId: string): string | null {
    return this.#last.get(agentId) ?? null;
  }

  note(agentId: string, webhookId: string): void {
    if (this.#last.size >= AGENTS_MAX && !this.#last.has(agentId)) this.#last.clear();
    this.#last.set(agentId, webhookId);
  }
}
