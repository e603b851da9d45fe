/** Maintenance that changes many rows in statements of limited length, so that it slows down ingest and claims little. */
import { setTimeout as delay } from 'node:timers/promises';

/**
 * Calls `part` until it resolves with false: nothing is left. After each part it pauses as long as the part took, so that half of a core of
 * Postgres stays free of it. Resolves with false if it was stopped before the end.
 * @param stopping true: returns after the part in progress.
 */
export async function inParts(part: () => Promise<boolean>, stopping: () => boolean = () => false): Promise<boolean> {
  for (;;) {
    const startedMs = performance.now();
    if (!(await part())) return true;
    await delay(performance.now() - startedMs);
    if (stopping()) return false;
  }
}
