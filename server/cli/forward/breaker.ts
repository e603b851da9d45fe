/** The circuit breaker of a target: after failures in a row no more deliveries are claimed, until the target answers again. */
import { type Backoff, backoffMs } from '../../base/time/backoff.ts';

export const FAILURES_MAX = 5;

/** Wait before a probe of the target. */
const backoff: Backoff = { firstMs: 1_000, maxMs: 30_000 };

/**
 * - `closed`: the target answers
 * - `open`: nothing is claimed; the target is probed
 * - `trial`: the target accepts connections, and one delivery is tried
 */
type State = 'closed' | 'open' | 'trial';

export class Breaker {
  #state: State = 'closed';
  #failures = 0;
  /** Probes and trials since the state was last `closed`. */
  #tries = 0;

  is(state: State): boolean {
    return this.#state === state;
  }

  /** The target answered, and could have taken a delivery. Requests that were in flight when the breaker opened do not count. Returns true if it closes. */
  succeeded(): boolean {
    this.#failures = 0;
    if (this.#state !== 'trial') return false;
    this.#state = 'closed';
    this.#tries = 0;
    return true;
  }

  /** The target gave no answer, or is overloaded or broken. Returns true if this opens the breaker. */
  failed(): boolean {
    if (this.#state === 'open') return false;
    this.#failures += 1;
    if (this.#state === 'closed' && this.#failures < FAILURES_MAX) return false;
    this.#state = 'open';
    return true;
  }

  /** A probe succeeded: one delivery may be tried. */
  tryOne(): void {
    this.#state = 'trial';
  }

  /** Milliseconds until the next probe. @param random in [0, 1) */
  nextProbeMs(random: number): number {
    this.#tries += 1;
    return backoffMs(this.#tries - 1, backoff, random);
  }
}
