/**
 * Estimates a quantile from the counts of a histogram as Prometheus' histogram_quantile does: observations are taken to be spread
 * evenly within a bucket. Null when nothing was observed; the largest bound when the quantile lies beyond it.
 * @param bounds upper ends of all buckets but the last, which has none
 * @param share 0 to 1
 */
export function quantile(bounds: readonly number[], counts: readonly number[], share: number): number | null {
  const total = counts.reduce((sum, count) => sum + count, 0);
  if (total === 0) return null;
  let below = 0;
  for (let bucket = 0; bucket < bounds.length; bucket++) {
    const count = counts[bucket]!;
    if (count > 0 && below + count >= share * total) {
      const from = bucket === 0 ? 0 : bounds[bucket - 1]!;
      return from + (bounds[bucket]! - from) * Math.max(0, (share * total - below) / count);
    }
    below += count;
  }
  return bounds.at(-1)!;
}
