/**
 * Where each agent's turn over its webhooks ended, so that its next claim goes on there. Each process keeps its own: over several
 * processes each webhook still gets its share of the claims that a process serves.
 */

/** Agents that are remembered; they are forgotten together, and begin with their first webhook again. */
const AGENTS_MAX = 10_000;

export class Turns {
  readonly #last = new Map<string, string>();

  /** The webhook that the agent's last claim ended with; null: not known. */
  last(agentId: string): string | null {
    return this.#last.get(agentId) ?? null;
  }

  note(agentId: string, webhookId: string): void {
    if (this.#last.size >= AGENTS_MAX && !this.#last.has(agentId)) this.#last.clear();
    this.#last.set(agentId, webhookId);
  }
}
