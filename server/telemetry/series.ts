/**
 * Counters and histograms as arrays of numbers, for what every request passes: an observe of prom-client hashes its labels, about a
 * microsecond each, and a request passes six of them.
 */

type Labels = Record<string, string>;
/** As prom-client's registry takes it. */
export type Sample = { value: number; labels: Labels; metricName?: string };

/** A counter with a few labelled series, each an entry of a map. */
export class HotCounter {
  readonly #series = new Map<string, { labels: Labels; value: number }>();

  /** @param known series that are there from the start, as 0; by default the one without labels. */
  constructor(known: readonly Labels[] = [{}]) {
    for (const labels of known) this.add(0, labels);
  }

  add(amount: number, labels: Labels = {}): void {
    const key = Object.values(labels).join('\n');
    const series = this.#series.get(key);
    if (series === undefined) this.#series.set(key, { labels, value: amount });
    else series.value += amount;
  }

  get total(): number {
    let total = 0;
    for (const { value } of this.#series.values()) total += value;
    return total;
  }

  samples(): Sample[] {
    return [...this.#series.values()];
  }
}

/** Counts by bucket; one a series. */
export class Distribution {
  readonly labels: Labels;
  readonly #bounds: readonly number[];
  readonly #counts: Float64Array;
  #sum = 0;

  constructor(bounds: readonly number[], labels: Labels) {
    this.#bounds = bounds;
    this.labels = labels;
    this.#counts = new Float64Array(bounds.length + 1);
  }

  observe(value: number): void {
    let bucket = 0;
    while (bucket < this.#bounds.length && value > this.#bounds[bucket]!) bucket++;
    this.#counts[bucket]!++;
    this.#sum += value;
  }

  /** How often a value fell into each bucket, the last of which has no end. */
  get counts(): readonly number[] {
    return [...this.#counts];
  }

  samples(name: string): Sample[] {
    let total = 0;
    const buckets = [...this.#bounds, '+Inf'].map((le, i) => {
      total += this.#counts[i]!;
      return { metricName: `${name}_bucket`, value: total, labels: { ...this.labels, le: String(le) } };
    });
    return [
      ...buckets,
      { metricName: `${name}_sum`, value: this.#sum, labels: this.labels },
      { metricName: `${name}_count`, value: total, labels: this.labels },
    ];
  }
}
