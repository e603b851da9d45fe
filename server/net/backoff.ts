/** Exponential back-off with full jitter, so that many clients that failed together do not come back together. */

export interface Backoff {
  firstMs: number;
  maxMs: number;
}

/**
 * Milliseconds to wait before try number `attempt` (0 for the first retry).
 * @param random in [0, 1); the wait lies between half and the whole of the exponential step.
 */
export function backoffMs(attempt: number, { firstMs, maxMs }: Backoff, random: number): number {
  const step = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30));
  return Math.round(step * (0.5 + random / 2));
}
