/**
 * Work of which one run at a time is enough: whoever asks while one is under way waits for the next, which begins after it and so
 * sees whatever was so when they asked.
 */
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
