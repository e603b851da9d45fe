/** Sums the samples of all processes, as a pure fold. The counts of an ended process are kept, so that totals never decrease. */
import { secondsBuckets } from '../../base/telemetry/metrics.ts';
import { noDeaths } from '../../model/machines.ts';
import {
  type Depth,
  type Gauges,
  gaugeNames,
  type Live,
  type ProcessLive,
  type Sample,
  type Second,
  type Totals,
  totalNames,
  type UnknownUrl,
} from './counters.ts';

/** A process that has not responded for this long is reported as unresponsive. */
const SILENT_MS = 3_000;

interface Counted {
  totals: Totals;
  commitDurations: readonly number[];
}

interface Process {
  sample: Sample;
  takenMs: number;
  /** `accepted` at the end of the previous second. */
  acceptedBefore: number;
}

const nothing: Counted = {
  totals: Object.fromEntries(totalNames.map((name) => [name, 0])) as Totals,
  commitDurations: Array.from({ length: secondsBuckets.length + 1 }, () => 0),
};

export class Tally {
  readonly #processes = new Map<number, Process>();
  #ended = nothing;
  #before = nothing;
  #beforeMs: number;
  readonly #startedAt: string;

  /** @param nowMs start time of Weir; all times are Unix milliseconds */
  constructor(nowMs: number) {
    this.#startedAt = new Date(nowMs).toISOString();
    this.#beforeMs = nowMs;
  }

  take(pid: number, sample: Sample, nowMs: number): void {
    const acceptedBefore = this.#processes.get(pid)?.acceptedBefore ?? 0;
    this.#processes.set(pid, { sample, takenMs: nowMs, acceptedBefore });
  }

  /** Removes a process; its counts up to the last sample are kept. */
  ended(pid: number): void {
    const process = this.#processes.get(pid);
    if (process === undefined) return;
    this.#ended = combine(this.#ended, process.sample, (one, other) => one + other);
    this.#processes.delete(pid);
  }

  /** True while any process has an open stream. */
  get watched(): boolean {
    return [...this.#processes.values()].some(({ sample }) => sample.gauges.streams > 0);
  }

  /**
   * Returns the state and the counts since the last call.
   * @param databaseAnswers the primary's view. A frozen database keeps its connections, so without traffic no process notices. A
   * commit in this second disproves the primary, which has only one connection.
   */
  second(nowMs: number, deliveries: Depth | null, databaseAnswers = true): Live {
    const samples = [...this.#processes.values()].map(({ sample }) => sample);
    const all = samples.reduce<Counted>((sum, sample) => combine(sum, sample, (a, b) => a + b), this.#ended);
    const since = combine(all, this.#before, (now, before) => now - before);
    const { commitDurations } = since;
    const second: Second = {
      at: new Date(nowMs).toISOString(),
      duration_ms: Math.round(nowMs - this.#beforeMs),
      ...since.totals,
      commits: commitDurations.reduce((sum, count) => sum + count, 0),
      commit_p50_ms: toMs(quantile(secondsBuckets, commitDurations, 0.5)),
      commit_p99_ms: toMs(quantile(secondsBuckets, commitDurations, 0.99)),
      ...sumOf(samples.map(({ gauges }) => gauges)),
    };
    const answers = databaseAnswers || second.commits > 0;
    const processes = [...this.#processes].map(([pid, process]) => describe(pid, process, nowMs, answers));
    this.#before = all;
    this.#beforeMs = nowMs;
    for (const process of this.#processes.values()) process.acceptedBefore = process.sample.totals.accepted;
    const database = processes.some((process) => process.database === 'up') ? 'up' : 'down';
    const spooling = database === 'down' && samples.some(({ spools }) => spools);
    const { totals } = all;
    return {
      started_at: this.#startedAt,
      second,
      totals,
      processes,
      database,
      spooling,
      outage: null,
      process_deaths: noDeaths,
      disks: [],
      unknown_urls: unknownUrlsOf(samples),
      deliveries,
    };
  }
}

function describe(
  pid: number,
  { sample, takenMs, acceptedBefore }: Process,
  nowMs: number,
  databaseAnswers: boolean,
): ProcessLive {
  return {
    pid,
    started_at: new Date(sample.startedMs).toISOString(),
    state: nowMs - takenMs > SILENT_MS ? 'unresponsive' : sample.leaving ? 'draining' : 'serving',
    database: databaseAnswers ? sample.database : 'down',
    rate_limit_store: sample.rateLimitStore,
    threads: sample.threads,
    accepted: sample.totals.accepted - acceptedBefore,
    ...sample.gauges,
  };
}

/** Rows of unknown URLs over all processes. */
const UNKNOWN_URLS_SHOWN = 10;

/** Adds the requests of equal clients and paths, which may have reached several processes. */
function unknownUrlsOf(samples: readonly Sample[]): UnknownUrl[] {
  const sums = new Map<string, UnknownUrl>();
  for (const one of samples.flatMap(({ unknownUrls }) => unknownUrls)) {
    const key = `${one.client} ${one.path}`;
    const sum = sums.get(key);
    const last_at = sum !== undefined && sum.last_at > one.last_at ? sum.last_at : one.last_at;
    sums.set(key, { ...one, requests: one.requests + (sum?.requests ?? 0), last_at });
  }
  return [...sums.values()].sort((one, other) => other.requests - one.requests).slice(0, UNKNOWN_URLS_SHOWN);
}

function combine(one: Counted, other: Counted, by: (a: number, b: number) => number): Counted {
  const totals = totalNames.map((name) => [name, by(one.totals[name], other.totals[name])]);
  return {
    totals: Object.fromEntries(totals) as Totals,
    commitDurations: one.commitDurations.map((count, bucket) => by(count, other.commitDurations[bucket]!)),
  };
}

/** Sums the gauges, except the event loop lag: each process has its own event loop, so the largest lag is reported. */
function sumOf(all: readonly Gauges[]): Gauges {
  const sum = (name: keyof Gauges) => all.reduce((total, gauges) => total + gauges[name], 0);
  return {
    ...(Object.fromEntries(gaugeNames.map((name) => [name, sum(name)])) as Gauges),
    event_loop_lag_ms: Math.max(0, ...all.map((gauges) => gauges.event_loop_lag_ms)),
  };
}

function toMs(seconds: number | null): number | null {
  return seconds === null ? null : Math.round(seconds * 100_000) / 100;
}

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
