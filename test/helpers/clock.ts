/** A monotonic clock that a test controls, so that it need not wait for the product's intervals. */
import { onTestFinished, vi } from 'vitest';

/** From here to the end of the test `performance.now()` stands still until it is put forward. Timers go on as they are. */
export function takeClock(): { forward(ms: number): void } {
  // Whole milliseconds: with fractions, a sum may differ from a limit by a rounding error.
  let nowMs = Math.ceil(performance.now());
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => spy.mockRestore());
  return {
    forward: (ms) => {
      nowMs += ms;
    },
  };
}

/**
 * From here to the end of the test the clock stands still and timers of `ms` milliseconds do not fire: what happens then has another
 * cause than the product's interval of that length. They fire at the end of the test, unless they were cleared.
 */
export function holdTimers(ms: number): void {
  takeClock();
  const [set, clear] = [setTimeout, clearTimeout];
  const held = new Map<unknown, () => void>();
  const holding = (callback: (...given: unknown[]) => void, delayMs?: number, ...given: unknown[]) => {
    if (delayMs !== ms) return set(callback, delayMs, ...given);
    const timer = set(callback, FAR_MS, ...given);
    held.set(timer, () => callback(...given));
    return timer;
  };
  const settingSpy = vi.spyOn(globalThis, 'setTimeout').mockImplementation(holding as typeof setTimeout);
  const clearingSpy = vi.spyOn(globalThis, 'clearTimeout').mockImplementation((timer) => {
    held.delete(timer);
    clear(timer);
  });
  onTestFinished(() => {
    settingSpy.mockRestore();
    clearingSpy.mockRestore();
    for (const [timer, callback] of held) {
      clear(timer as NodeJS.Timeout);
      callback();
    }
  });
}

/** `vi.useFakeTimers` until the end of the test. */
export function fakeTimers(given: Parameters<typeof vi.useFakeTimers>[0]): void {
  vi.useFakeTimers(given);
  onTestFinished(() => void vi.useRealTimers());
}

/** Longer than a test run. */
const FAR_MS = 86_400_000;
