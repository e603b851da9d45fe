/** Waits for a condition; a fixed sleep is either too short or too long. */
import { setTimeout as delay } from 'node:timers/promises';

const LOOK_EVERY_MS = 10;
/** The real clock, also while a test controls `performance.now`. */
const realNow = performance.now.bind(performance);

/** Polls every 10 ms until `condition` returns a truthy value, and resolves with it; rejects after `timeoutMs`. */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = 90_000 }: { timeoutMs?: number } = {},
): Promise<Exclude<T, false | 0 | '' | null | undefined>> {
  const endMs = realNow() + timeoutMs;
  for (;;) {
    const value = await condition();
    if (value) return value as Exclude<T, false | 0 | '' | null | undefined>;
    if (realNow() > endMs) throw new Error(`still not so after ${timeoutMs} ms: ${condition}`);
    await delay(LOOK_EVERY_MS);
  }
}
