/** Values that are read once for many requests. */

/** Reads at most once in `ms`; calls share a read. A failed read is not kept. */
export function keptFor<T>(ms: number, read: (nowMs: number) => Promise<T>): (nowMs: number) => Promise<T> {
  let kept: { atMs: number; value: Promise<T> } | null = null;
  return (nowMs) => {
    if (kept === null || performance.now() - kept.atMs >= ms) {
      const next = { atMs: performance.now(), value: read(nowMs) };
      kept = next;
      next.value.catch(() => {
        if (kept === next) kept = null;
      });
    }
    return kept.value;
  };
}

/** A value, and whether there is so much to read for it that it is kept. */
export interface Sized<T> {
  value: T;
  isLarge: boolean;
}

/**
 * Reads each time, unless the value is large: that is kept for `ms`, whatever the arguments. Then a call starts the next read, and gets the
 * value that is known; when it is twice as old, the call waits for the read. A failed read is not kept. Calls during the first read wait for it,
 * and read themselves only if it failed or the value is not large.
 * @param clockMs milliseconds that only grow
 */
export function keptWhenLarge<T, Arguments extends unknown[]>(
  ms: number,
  read: (...given: Arguments) => Promise<Sized<T>>,
  clockMs: () => number = () => performance.now(),
): (...given: Arguments) => Promise<T> {
  let known: { atMs: number; value: T } | null = null;
  let reading: Promise<T> | null = null;
  const readNow = async (given: Arguments) => {
    const atMs = clockMs();
    const { value, isLarge } = await read(...given);
    known = isLarge ? { atMs, value } : null;
    return value;
  };
  const begin = (given: Arguments) => {
    const next = readNow(given).finally(() => {
      if (reading === next) reading = null;
    });
    next.catch(() => {});
    reading = next;
    return next;
  };
  return async (...given) => {
    if (known === null && reading !== null) await reading.catch(() => {});
    if (known === null) return begin(given);
    const { atMs, value } = known;
    const ageMs = clockMs() - atMs;
    if (ageMs < ms) return value;
    const next = reading ?? begin(given);
    return ageMs < 2 * ms ? value : next;
  };
}
