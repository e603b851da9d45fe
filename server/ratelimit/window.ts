/**
 * The two-bucket sliding window: the arithmetic of every rate limit.
 *
 * Time is cut into buckets of one window each. Of the requests of the previous bucket we assume that they came evenly, so
 * that `elapsedMs` into the current one the share `1 - elapsedMs / window` of them still lies within the window:
 *
 *     estimate = previous * (1 - elapsedMs / window) + current        one more is allowed while estimate + 1 <= max
 *
 * Two numbers a client, whatever the limit; an exact sliding log would keep the time of every request.
 *
 * Error of the method, against that exact log (each bound has its property test):
 * - It never allows more than `max` in one bucket, so never more than `max` a window in the long run.
 * - It allows at most `2 * max - 1` in some interval as long as a window. That takes a sender who spends all of `max` in the
 *   last moments of a bucket and spends the rest as it is given free in the next one.
 * - It refuses nothing of traffic that comes evenly spaced at up to `max - 1` requests a window, and of any faster even
 *   traffic it allows at least `max - 1` in each window.
 * - It may refuse up to `max` requests that the log would allow, where a client's previous bucket was full at its beginning
 *   and empty afterwards: their weight is gone a whole window later than their time. Such a client waits for one more
 *   request at most `window + window / max`, where the log would let it wait `window`.
 */

/** The part of a policy that the arithmetic needs; `max` is at least 1. */
interface WindowPolicy {
  readonly max: number;
  readonly windowSeconds: number;
}

interface WindowDecision {
  allowed: boolean;
  /** Requests that would be allowed right after this one. */
  remaining: number;
  /** Time until that number is greater by one, if nothing else comes; when refused, until one request fits. At least 1 ms. */
  resetMs: number;
}

/**
 * Decides one request. `previous` and `current` are the requests allowed in the two buckets, this one left out; the caller
 * adds it to `current` when it is allowed and changes nothing when it is refused, so that asking again lengthens no wait.
 * `elapsedMs` is the time since the current bucket began: 0 <= elapsedMs < window.
 */
export function decide(previous: number, current: number, elapsedMs: number, policy: WindowPolicy): WindowDecision {
  const windowMs = policy.windowSeconds * 1000;
  // Whole numbers, all multiplied by the window: no fraction is rounded, and window.lua comes to the same answer.
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

/** Time until the estimate has fallen to `target`, in whole milliseconds of the bucket; it stands above `target` now. */
function fallsToMs(previous: number, current: number, elapsedMs: number, windowMs: number, target: number): number {
  const leftMs = windowMs - elapsedMs;
  // In this bucket only the previous one's weight falls; what is current must fit by itself.
  if (current <= target) return leftMs - Math.floor(((target - current) * windowMs) / previous);
  // In the next bucket what is current now is the previous one.
  return leftMs + windowMs - Math.floor((target * windowMs) / current);
}
