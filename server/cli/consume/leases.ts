/** Keeps the leases of deliveries that are worked on: each is extended, many in one request, when a third of it has passed. */
import type { AgentApi } from './api.ts';

const RECEIPTS_MAX = 1_000;

interface Held {
  /** By performance.now(). */
  sinceMs: number;
  lost: () => void;
}

export class Leases {
  readonly #api: AgentApi;
  readonly #leaseSeconds: number;
  readonly #failed: (error: unknown) => void;
  readonly #held = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  #asking = false;

  /** @param failed is told, once a try, when the API refuses extensions for good */
  constructor(api: AgentApi, leaseSeconds: number, failed: (error: unknown) => void) {
    this.#api = api;
    this.#leaseSeconds = leaseSeconds;
    this.#failed = failed;
    // Looking at every sixth, a lease is extended between a third and a half of its time.
    this.#timer = setInterval(() => void this.#extend(), (leaseSeconds * 1000) / 6);
  }

  /** @param lost is called when the server says that the lease is somebody else's now */
  hold(receipt: string, lost: () => void): void {
    this.#held.set(receipt, { sinceMs: performance.now(), lost });
  }

  release(receipt: string): void {
    this.#held.delete(receipt);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #extend(): Promise<void> {
    // A request that is being repeated speaks for its own receipts only; the next look takes the rest.
    if (this.#asking) return;
    const askedMs = performance.now();
    const dueMs = askedMs - (this.#leaseSeconds * 1000) / 3;
    const due = [...this.#held].filter(([, { sinceMs }]) => sinceMs <= dueMs).slice(0, RECEIPTS_MAX);
    if (due.length === 0) return;
    this.#asking = true;
    try {
      const receipts = due.map(([receipt]) => receipt);
      const settled = await this.#api.settle('extend', receipts, { lease_seconds: this.#leaseSeconds });
      if (settled.kind === 'stopped') return;
      for (const [receipt, held] of due) {
        // What was settled meanwhile has no lease to lose.
        if (this.#held.get(receipt) !== held) continue;
        if (settled.done.has(receipt)) held.sinceMs = askedMs;
        else {
          this.#held.delete(receipt);
          held.lost();
        }
      }
    } catch (error) {
      this.#failed(error);
    } finally {
      this.#asking = false;
    }
  }
}
