/**
 * Runs `work` at most once at a time. All calls made during a run share the next run, because only that run starts after them.
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
