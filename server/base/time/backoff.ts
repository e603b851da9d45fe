/** Delays between attempts: exponential back-off with jitter, so that clients that failed at the same time do not retry at the same time. */
import { setTimeout as delay } from 'node:timers/promises';

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

/** Maximum delay of a Node timer; a longer delay uses several timers. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Waits `ms` milliseconds or until `stop` aborts. A remainder below 1 ms is skipped, because timers are not that precise. */
export async function pause(ms: number, stop: AbortSignal): Promise<void> {
  for (let leftMs = ms; leftMs >= 1 && !stop.aborted; leftMs -= TIMER_MS_MAX)
    await delay(Math.min(leftMs, TIMER_MS_MAX), undefined, { signal: stop }).catch(() => {});
}

/**
 * Delay in milliseconds from `nowMs` (Unix time) that a Retry-After field requests: seconds or an HTTP date (RFC 9110,
 * 10.2.3). Null when the field is absent or invalid.
 */
export function parseRetryAfter(value: string | undefined, nowMs: number): number | null {
  if (value === undefined) return null;
  if (/^\d+$/.test(value)) return Number(value) * 1000;
  // An HTTP date begins with the name of a day. Date.parse also reads -1 and 1.5, as dates of 2001.
  const dateMs = /^[A-Z][a-z]{2}/.test(value) ? Date.parse(value) : Number.NaN;
  return Number.isNaN(dateMs) ? null : Math.max(0, dateMs - nowMs);
}
