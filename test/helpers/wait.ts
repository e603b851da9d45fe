/** Waits for a condition; a fixed sleep is either too short or too long. */
import { setTimeout as delay } from 'node:timers/promises';

/** Longer than anything takes on a busy machine, unless it hangs. */
export const PATIENCE_MS = 90_000;
const LOOK_EVERY_MIN_MS = 10;
const LOOK_EVERY_MAX_MS = 100;
/** Pause between two looks, as a part of the time waited so far: a look may cost a page of metrics or a session of Postgres. */
const SHARE = 0.05;
/** The real clock, also while a test controls `performance.now`. */
const realNow = performance.now.bind(performance);

/** Polls until `condition` returns a truthy value, and resolves with it; rejects after `timeoutMs`. */
export async function until<T>(
  condition: () => T | Promise<T>,
  { timeoutMs = PATIENCE_MS }: { timeoutMs?: number } = {},
): Promise<Exclude<T, false | 0 | '' | null | undefined>> {
  const beganMs = realNow();
  for (;;) {
    const value = await condition();
    if (value) return value as Exclude<T, false | 0 | '' | null | undefined>;
    const waitedMs = realNow() - beganMs;
    if (waitedMs > timeoutMs) throw new Error(`still not so after ${timeoutMs} ms: ${condition}`);
    await delay(Math.min(Math.max(waitedMs * SHARE, LOOK_EVERY_MIN_MS), LOOK_EVERY_MAX_MS));
  }
}

/** A promise that `open` resolves. */
export function gate(): { opened: Promise<void>; open: () => void } {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  return { opened, open };
}
