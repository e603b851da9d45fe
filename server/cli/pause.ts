/** Waiting that a signal can end. */
import { setTimeout as delay } from 'node:timers/promises';

/** The longest that a timer takes; a longer wait sleeps again. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Sleeps, unless `stop` has come or comes before. A part of a millisecond is below what timers keep, and skipped. */
export async function pause(ms: number, stop: AbortSignal): Promise<void> {
  for (let leftMs = ms; leftMs >= 1 && !stop.aborted; leftMs -= TIMER_MS_MAX)
    await delay(Math.min(leftMs, TIMER_MS_MAX), undefined, { signal: stop }).catch(() => {});
}
