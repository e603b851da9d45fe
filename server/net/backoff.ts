/** Exponential back-off with jitter: clients that failed at the same time do not retry at the same time. */

export interface Backoff {
  firstMs: number;
  maxMs: number;
}

/**
 * Returns the milliseconds to wait before retry number `attempt` (0 for the first retry).
 * @param random in [0, 1). The wait is between half and all of the exponential step.
 */
export function backoffMs(attempt: number, { firstMs, maxMs }: Backoff, random: number): number {
  const step = Math.min(maxMs, firstMs * 2 ** Math.min(attempt, 30));
  return Math.round(step * (0.5 + random / 2));
}
