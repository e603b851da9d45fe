/** A delay that a signal can end. */
import { setTimeout as delay } from 'node:timers/promises';

/** Maximum delay of a Node timer; a longer delay uses several timers. */
const TIMER_MS_MAX = 2 ** 31 - 1;

/** Waits `ms` milliseconds or until `stop` aborts. A remainder below 1 ms is skipped, because timers are not that precise. */
export async function pause(ms: number, stop: AbortSignal): Promise<void> {
  for (let leftMs = ms; leftMs >= 1 && !stop.aborted; leftMs -= TIMER_MS_MAX)
    await delay(Math.min(leftMs, TIMER_MS_MAX), undefined, { signal: stop }).catch(() => {});
}
