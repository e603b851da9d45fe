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
