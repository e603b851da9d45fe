/** A monotonic clock in the hand of a test, so that it need not wait for the product's intervals. */
import { onTestFinished, vi } from 'vitest';

/** From here to the end of the test `performance.now()` stands still until it is put forward. Timers go on as they are. */
export function takeClock(): { forward(ms: number): void } {
  let nowMs = performance.now();
  const spy = vi.spyOn(performance, 'now').mockImplementation(() => nowMs);
  onTestFinished(() => spy.mockRestore());
  return {
    forward: (ms) => {
      nowMs += ms;
    },
  };
}
