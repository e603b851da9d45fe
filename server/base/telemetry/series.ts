/**
 * Counters and histograms as arrays of numbers: an observe in prom-client hashes its labels, which takes about a microsecond, and a request
 * makes six.
 */

type Labels = Record<string, string>;
/** A sample in the form of prom-client's registry. */
export type MetricSample = { value: number; labels: Labels; metricName?: string };

/** One series of a counter. The holder adds to `value`, which costs less than a look-up by labels. */
interface Series {
  readonly labels: Labels;
  value: number;
}

/** A counter with a few labelled series, stored in a map. */
class HotCounter {
  readonly #series = new Map<string, Series>();

  constructor(known: readonly Labels[]) {
    for (const labels of known) this.add(0, labels);
  }

  add(amount: number, labels: Labels = {}): void {
    this.series(labels).value += amount;
  }

  /** Returns the series with these labels; creates it at 0. */
  series(labels: Labels): Series {
    const key = Object.values(labels).join('\n');
    let series = this.#series.get(key);
    if (series === undefined) {
      series = { labels, value: 0 };
      this.#series.set(key, series);
    }
    return series;
  }

  get total(): number {
    let total = 0;
    for (const { value } of this.#series.values()) total += value;
    return total;
  }

  samples(): MetricSample[] {
    return [...this.#series.values()];
  }
}

/** Names of counters, each with the series that start at 0. */
export type CountedSeries = Readonly<Record<string, readonly Labels[]>>;

/** Creates a counter for each name, with its series at 0. */
export function countersOf<Counted extends CountedSeries>(counted: Counted) {
  const counters = Object.entries(counted).map(([name, known]) => [name, new HotCounter(known)]);
  return Object.fromEntries(counters) as Readonly<Record<keyof Counted, HotCounter>>;
}

/** A histogram series: counts by bucket. */
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

  /** The number of values in each bucket. The last bucket has no upper bound. */
  get counts(): readonly number[] {
    return [...this.#counts];
  }

  samples(name: string): MetricSample[] {
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
