/** When work runs: repeated, shared, in turn, and with a limit of time. */

/**
 * Runs `work` every `ms` milliseconds, and first after `firstMs`. Runs never overlap: while one takes longer, later ones are skipped. The
 * returned function ends the repetition, and resolves when the run in progress is over.
 * @param work never rejects: it reports its failures itself.
 */
export function every(ms: number, work: () => Promise<void>, firstMs = ms): () => Promise<void> {
  let running: Promise<void> | null = null;
  const run = () => {
    running ??= work().finally(() => {
      running = null;
    });
  };
  const first = firstMs === ms ? undefined : setTimeout(run, firstMs);
  const timer = setInterval(run, ms);
  return async () => {
    clearTimeout(first);
    clearInterval(timer);
    await running;
  };
}

/** Runs `work` at most once at a time. All calls made during a run share the next run, because only that run starts after them. */
export function coalesced(work: () => Promise<void>): () => Promise<void> {
  let running = Promise.resolve();
  let next: Promise<void> | null = null;
  return () => {
    next ??= running
      .catch(() => {})
      .then(() => {
        next = null;
        running = work();
        return running;
      });
    return next;
  };
}

/** Returns a function that runs at most `max` works at a time. The others wait, and run in the order of their calls. */
export function inTurns(max: number): <T>(work: () => Promise<T>) => Promise<T> {
  let running = 0;
  const waiting: (() => void)[] = [];
  return async (work) => {
    // Work that ends passes its place to the oldest that waits, so that a later call cannot take the place.
    if (running < max) running++;
    else await new Promise<void>((resolve) => waiting.push(resolve));
    try {
      return await work();
    } finally {
      const next = waiting.shift();
      if (next === undefined) running--;
      else next();
    }
  };
}

/** A time limit for work that cannot be cancelled. Resolves with undefined if it does not settle in time; its later result is dropped. */
export async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
