/**
 * Estimates a quantile from the counts of a histogram like Prometheus' histogram_quantile: assumes that observations are evenly
 * spread within a bucket. Returns null without observations, and the largest bound if the quantile lies beyond it.
 * @param bounds upper bounds of all buckets except the last, which has none
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
