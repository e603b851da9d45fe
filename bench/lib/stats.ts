/** Medians and spread. For a handful of rounds, the spread is the lowest and the highest value. */

/** Median, minimum and maximum. Needs at least one value. */
export function spreadOf(values: readonly number[]) {
  if (values.length === 0) throw new Error('no values, no median');
  const sorted = values.toSorted((a, b) => a - b);
  const middle = sorted.length / 2;
  const median = sorted.length % 2 === 1 ? sorted[Math.floor(middle)]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
  return { median, low: sorted[0]!, high: sorted.at(-1)! };
}

/** Percentile by nearest rank. `share` is from 0 to 1. Needs at least one value. */
export function percentile(values: readonly number[], share: number): number {
  if (values.length === 0) throw new Error('no values, no percentile');
  const sorted = Float64Array.from(values).sort();
  return sorted[Math.max(0, Math.ceil(share * sorted.length) - 1)]!;
}

/** Divides `of` by `to` for each round. */
export function ratioByRound(of: readonly number[], to: readonly number[]): number[] {
  if (of.length !== to.length) throw new Error('a ratio needs the same number of rounds on both sides');
  return of.map((value, round) => value / to[round]!);
}

/** Formats with three significant digits below a thousand, as a whole number with separators above. */
export function formatNumber(value: number): string {
  if (value === 0) return '0';
  if (Math.abs(value) >= 100) return Math.round(value).toLocaleString('en-GB');
  const digits = Math.max(0, 2 - Math.floor(Math.log10(Math.abs(value))));
  return String(Number(value.toFixed(Math.min(digits, 6))));
}

/** Formats `24,300 (22,900 to 25,100)`: the median, and the spread when there is more than one round. */
export function formatSpread(values: readonly number[]): string {
  const { median, low, high } = spreadOf(values);
  if (values.length === 1) return formatNumber(median);
  return `${formatNumber(median)} (${formatNumber(low)} to ${formatNumber(high)})`;
}
