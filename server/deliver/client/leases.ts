/** Extends the leases of deliveries that are being processed: when a third of the lease has passed, many in one request. */
import { pause } from '../../base/time/backoff.ts';
import { type AgentApi, AWAY_PAUSE_MS } from './api.ts';
import type { Outcome } from './settle.ts';

const RECEIPTS_MAX = 1_000;

interface Held {
  /** Start of a lease of the usual length that ends when this one does, as performance.now(). */
  sinceMs: number;
  lost: () => void;
}

export class Leases {
  readonly #api: AgentApi;
  readonly #leaseSeconds: number;
  readonly #failed: (error: unknown) => void;
  readonly #signal: AbortSignal;
  readonly #held = new Map<string, Held>();
  readonly #timer: NodeJS.Timeout;
  #asking = false;

  /**
   * @param failed called after each attempt when the API refuses extensions permanently
   * @param signal ends every request
   */
  constructor(api: AgentApi, leaseSeconds: number, failed: (error: unknown) => void, signal: AbortSignal) {
    this.#api = api;
    this.#signal = signal;
    this.#leaseSeconds = leaseSeconds;
    this.#failed = failed;
    // Checking every sixth of the lease extends it between a third and a half of its time.
    this.#timer = setInterval(() => void this.#extend(), (leaseSeconds * 1000) / 6);
  }

  /** @param lost called when the server reports that the lease is lost */
  hold(receipt: string, lost: () => void): void {
    this.#held.set(receipt, { sinceMs: performance.now(), lost });
  }

  /** Extends one lease to `seconds` from now, whatever the usual length is. Rejects with WeirError. */
  async extend(receipt: string, seconds: number): Promise<Outcome> {
    const askedMs = performance.now();
    const settled = await this.#api.settle('extend', [receipt], { lease_seconds: seconds }, this.#signal);
    if (settled.kind === 'stopped') return 'stopped';
    if (settled.away.has(receipt)) {
      await pause(AWAY_PAUSE_MS, this.#signal);
      return this.extend(receipt, seconds);
    }
    if (!settled.done.has(receipt)) return 'gone';
    const held = this.#held.get(receipt);
    if (held !== undefined) held.sinceMs = askedMs + (seconds - this.#leaseSeconds) * 1000;
    return 'done';
  }

  release(receipt: string): void {
    this.#held.delete(receipt);
  }

  close(): void {
    clearInterval(this.#timer);
  }

  async #extend(): Promise<void> {
    // A pending request covers only its own receipts; the next check covers the others.
    if (this.#asking) return;
    const askedMs = performance.now();
    const dueMs = askedMs - (this.#leaseSeconds * 1000) / 3;
    const due = [...this.#held].filter(([, { sinceMs }]) => sinceMs <= dueMs).slice(0, RECEIPTS_MAX);
    if (due.length === 0) return;
    this.#asking = true;
    try {
      const receipts = due.map(([receipt]) => receipt);
      const settled = await this.#api.settle('extend', receipts, { lease_seconds: this.#leaseSeconds }, this.#signal);
      if (settled.kind === 'stopped') return;
      for (const [receipt, held] of due) {
        // Deliveries settled during the request have no lease to lose. Receipts of a database that does not answer are sent again at the next check.
        if (this.#held.get(receipt) !== held || settled.away.has(receipt)) continue;
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
