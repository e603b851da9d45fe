/** Schedules requests and retries. Pure: every time is an argument, in milliseconds. */
import { type Backoff, backoffMs } from '../../base/time/backoff.ts';

/** Result of one attempt. `isStored`: the answer names an event (X-Weir-Event-Id). `detail`: why the request was refused, from a problem document (RFC 9457). */
export type Attempt =
  | {
      kind: 'answered';
      status: number;
      isStored?: boolean;
      retryAfterMs: number | null;
      latencyMs: number;
      detail?: string;
    }
  | { kind: 'failed'; name: string };

/** `again`: wait at least `afterMs`. `forAll`: the server asked for the delay, so it applies to every request. */
type NextStep = { kind: 'finished' } | { kind: 'again'; afterMs: number; forAll: boolean };

/** Maximum attempts of one request that end in 503 or a lost connection, including the first. Retries after 429 are not limited. */
export const triesMax = 10;

/** Delay between attempts without Retry-After. Ten attempts span about twenty seconds, which is longer than a restart. */
const backoff: Backoff = { firstMs: 200, maxMs: 5_000 };

/**
 * Decides what follows an attempt.
 * @param tries attempts of this request that ended in 503 or a lost connection, including this one
 * @param refusals attempts of this request that ended in 429, including this one
 * @param random in [0, 1)
 */
export function nextStep(attempt: Attempt, tries: number, refusals: number, random: number): NextStep {
  if (attempt.kind === 'failed') {
    if (tries >= triesMax) return { kind: 'finished' };
    return { kind: 'again', afterMs: backoffMs(tries - 1, backoff, random), forAll: false };
  }
  if (attempt.status !== 429 && attempt.status !== 503) return { kind: 'finished' };
  if (attempt.status === 503 && tries >= triesMax) return { kind: 'finished' };
  const earlier = (attempt.status === 429 ? refusals : tries) - 1;
  return { kind: 'again', afterMs: attempt.retryAfterMs ?? backoffMs(earlier, backoff, random), forAll: true };
}

/**
 * Computes when requests are due: one every 1000 / rate ms, independent of the responses (constant arrival), or immediately
 * when no rate is set. A delay that the server requests shifts the schedule, so that no burst follows.
 */
export class Pace {
  readonly #intervalMs: number;
  #nextMs: number;
  #heldUntilMs: number;

  /** @param rate requests per second; null: no limit, the next request follows each response */
  constructor(rate: number | null, startMs: number) {
    this.#intervalMs = rate === null ? 0 : 1000 / rate;
    this.#nextMs = startMs;
    this.#heldUntilMs = startMs;
  }

  /** Returns the time at which the caller's request is due. Each call takes one slot of the schedule. */
  take(): number {
    const dueMs = this.#nextMs;
    this.#nextMs += this.#intervalMs;
    return dueMs;
  }

  /** No request is due before this time. */
  holdUntil(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, ms);
    this.#nextMs = Math.max(this.#nextMs, ms);
  }

  /** True when a later delay covers the slot, so that the caller must take a new slot. */
  isHeldAt(ms: number): boolean {
    return ms < this.#heldUntilMs;
  }
}
