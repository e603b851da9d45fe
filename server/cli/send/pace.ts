/** When the next request may go, and whether one goes again. Pure: every moment is an argument, in milliseconds. */
import { type Backoff, backoffMs } from '../../net/backoff.ts';

/** What became of one attempt. */
export type Attempt =
  | { kind: 'answered'; status: number; retryAfterMs: number | null; latencyMs: number }
  | { kind: 'failed'; name: string };

/** `again`: not before `afterMs` from now; `forAll`: the server asked for the pause, so every request keeps it. */
type NextStep = { kind: 'finished' } | { kind: 'again'; afterMs: number; forAll: boolean };

/** Tries of one request, the first included, that end in 503 or in a lost connection. Repeats after 429 have no bound. */
export const triesMax = 10;

/** Between tries where the server named no wait: ten tries then span about twenty seconds, longer than a restart. */
const backoff: Backoff = { firstMs: 200, maxMs: 5_000 };

/**
 * Decides after an attempt.
 * @param tries attempts of this request so far that ended in 503 or in a lost connection, this one included
 * @param refusals attempts of this request so far that ended in 429, this one included
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
 * Milliseconds from `nowMs` (Unix time) that a Retry-After field asks for: seconds or an HTTP date (RFC 9110, 10.2.3);
 * null when it is absent or neither.
 */
export function parseRetryAfter(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  const dateMs = Date.parse(value);
  return Number.isNaN(dateMs) ? null : Math.max(0, dateMs - nowMs);
}

/**
 * Hands out the moments at which requests are due: one every 1000 / rate ms whether or not answers come (constant
 * arrival), or at once without a rate. A pause that the server asked for moves the schedule, so that no burst follows it.
 */
export class Pace {
  readonly #intervalMs: number;
  #nextMs: number;
  #heldUntilMs: number;

  /** @param rate requests a second; null: as fast as answers come */
  constructor(rate: number | null, startMs: number) {
    this.#intervalMs = rate === null ? 0 : 1000 / rate;
    this.#nextMs = startMs;
    this.#heldUntilMs = startMs;
  }

  /** The moment at which the caller's request is due; each call takes one place in the schedule. */
  take(): number {
    const dueMs = this.#nextMs;
    this.#nextMs += this.#intervalMs;
    return dueMs;
  }

  /** Nothing is due before this moment. */
  holdUntil(ms: number): void {
    this.#heldUntilMs = Math.max(this.#heldUntilMs, ms);
    this.#nextMs = Math.max(this.#nextMs, ms);
  }

  /** Whether a place taken earlier has been overtaken by a pause, and has to be taken again. */
  isHeldAt(ms: number): boolean {
    return ms < this.#heldUntilMs;
  }
}
