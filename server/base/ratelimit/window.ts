/**
 * The two-bucket sliding window: the arithmetic of all rate limits.
 *
 * Time is divided into buckets of one window each. The requests of the previous bucket are assumed to be evenly spaced, so that
 * at `elapsedMs` into the current bucket the share `1 - elapsedMs / window` of them is still within the window:
 *
 *     estimate = previous * (1 - elapsedMs / window) + current        one more is allowed while estimate + 1 <= max
 *
 * It stores two numbers per client for any limit. An exact sliding log would store the time of every request.
 *
 * Error compared with the exact log (each bound has a property test):
 * - It never allows more than `max` in one bucket, so never more than `max` per window in the long run.
 * - It allows at most `2 * max - 1` in any interval of one window. The worst case is a sender that uses all of `max` at the end
 *   of one bucket and then each request that becomes available in the next bucket.
 * - It refuses no evenly spaced traffic of up to `max - 1` requests per window. Of faster even traffic, it allows at least
 *   `max - 1` in each window.
 * - It may refuse up to `max` requests that the log would allow, if a client's previous bucket was full at its start and empty
 *   afterwards: the weight of those requests expires up to one window late. Such a client waits at most `window + window / max`
 *   for one more request; with the log it would wait `window`.
 */
import type { Decision, Policy } from './limiter.ts';

type WindowPolicy = Pick<Policy, 'max' | 'windowSeconds'>;

interface WindowDecision extends Pick<Decision, 'allowed' | 'remaining'> {
  /** Milliseconds, >= 1, until `remaining` grows by one without further requests, or, after a refusal, until one request fits. */
  resetMs: number;
}

/**
 * Decides one request. The caller adds an allowed request to `current` and does not count a refused one, so that a retry does not
 * lengthen the wait.
 * @param previous requests allowed in the previous bucket.
 * @param current requests allowed in the current bucket, without this one.
 * @param elapsedMs time since the current bucket began: 0 <= elapsedMs < window.
 */
export function decide(previous: number, current: number, elapsedMs: number, policy: WindowPolicy): WindowDecision {
  const windowMs = policy.windowSeconds * 1000;
  // Integers, all multiplied by the window: no rounding, and window.lua gets the same result.
  const freeTimesWindow = policy.max * windowMs - previous * (windowMs - elapsedMs) - current * windowMs;
  const allowed = freeTimesWindow >= windowMs;
  const remaining = allowed ? Math.floor(freeTimesWindow / windowMs) - 1 : 0;
  const target = policy.max - remaining - 1;
  return {
    allowed,
    remaining,
    resetMs: fallsToMs(previous, allowed ? current + 1 : current, elapsedMs, windowMs, target),
  };
}

/** Returns the whole milliseconds until the estimate, which is above `target` now, falls to `target`. */
function fallsToMs(previous: number, current: number, elapsedMs: number, windowMs: number, target: number): number {
  const leftMs = windowMs - elapsedMs;
  // In this bucket, only the weight of the previous bucket falls. `current` alone must fit.
  if (current <= target) return leftMs - Math.floor(((target - current) * windowMs) / previous);
  // In the next bucket, `current` is the previous bucket.
  return leftMs + windowMs - Math.floor((target * windowMs) / current);
}
