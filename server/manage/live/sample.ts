/** What a process reports to the primary: its counters and the lag of its event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { MetricName } from '../../base/telemetry/metric-table.ts';
import type { Metrics } from '../../base/telemetry/metrics.ts';
import type { Gauges, Sample, Totals } from './counters.ts';

const INGEST_PREFIX = '/in/';

const sampled = {
  queue_events: 'weir_queue_events',
  verify_queue_requests: 'weir_verify_queue_requests',
  connections: 'weir_connections',
  open_requests: 'weir_open_requests',
  streams: 'weir_streams',
  resident_bytes: 'weir_resident_bytes',
} as const satisfies Record<Exclude<keyof Gauges, 'event_loop_lag_ms'>, MetricName>;
const sampledNames = Object.keys(sampled) as (keyof typeof sampled)[];

/** The members of a sample that come from the metrics of the process. */
export type Sampled = 'startedMs' | 'totals' | 'commitDurations' | 'threads' | 'gauges';

/** Reads the members of a sample that come from this process. Has a side effect: `lag` begins a new second, so call it once a second. */
export function sampleOf(metrics: Metrics, lag: LoopLag): Pick<Sample, Sampled> {
  const values = Object.fromEntries(sampledNames.map((name) => [name, metrics.value(sampled[name])]));
  return {
    startedMs: Math.round(performance.timeOrigin),
    totals: totalsOf(metrics),
    commitDurations: metrics.commitDurations(),
    threads: metrics.value('weir_threads'),
    gauges: {
      ...(values as Record<keyof typeof sampled, number>),
      event_loop_lag_ms: Math.round(lag.take() * 100) / 100,
    },
  };
}

/** Counts since the start of the process. A duplicate event counts as neither accepted nor refused. */
function totalsOf(metrics: Metrics): Totals {
  const totals = {
    accepted: metrics.total('weir_events_committed_total'),
    rejected: 0,
    limited: 0,
    refused: 0,
    failed: 0,
    spooled: metrics.total('weir_spool_events_written_total'),
    requests: 0,
    connections_refused: metrics.total('weir_connections_refused_total'),
  };
  for (const { route, status, count } of metrics.answers()) {
    totals.requests += count;
    if (route.startsWith(INGEST_PREFIX) && status >= 400) totals[refusalOf(status)] += count;
  }
  return totals;
}

function refusalOf(status: number): 'rejected' | 'limited' | 'failed' | 'refused' {
  if (status === 403) return 'rejected';
  if (status === 429) return 'limited';
  return status >= 500 ? 'failed' : 'refused';
}

/**
 * Returns a function that reads the resident bytes of this process. The kernel reports them in a file: while no descriptor is free, the
 * last number is returned.
 */
export function residentMeter(): () => number {
  let bytes = 0;
  return () => {
    try {
      bytes = process.memoryUsage.rss();
    } catch {
      // EMFILE. The timer that calls this must continue.
    }
    return bytes;
  };
}

/** Window of `largest`, in seconds: as long as most scrape intervals, so that no peak is missed. */
export const LAG_WINDOW_SECONDS = 60;

/**
 * Interval of the timer whose delay is the lag. It wakes an idle process: with 10 ms 101 times a second, and 328 ms of CPU time a minute;
 * with 50 ms 32 times, and 196 ms (medians of 7 rounds in turns).
 */
const RESOLUTION_MS = 50;

/**
 * Event loop lag, second by second. Only the sampler ends a second; reading `largest` changes nothing, so any number of readers
 * can share it.
 */
export class LoopLag {
  readonly #monitor = monitorEventLoopDelay({ resolution: RESOLUTION_MS });
  /** In milliseconds, newest last. */
  readonly #window: number[] = [];

  constructor() {
    this.#monitor.enable();
  }

  /** Called once a second. Returns the 99th percentile since the last call, in milliseconds. */
  take(): number {
    const ms = this.#now();
    this.#monitor.reset();
    this.#window.push(ms);
    if (this.#window.length > LAG_WINDOW_SECONDS) this.#window.shift();
    return ms;
  }

  /** Largest value of the last LAG_WINDOW_SECONDS seconds and the current one, in milliseconds. */
  get largest(): number {
    return Math.max(this.#now(), ...this.#window);
  }

  stop(): void {
    this.#monitor.disable();
  }

  #now(): number {
    // The monitor records the time between two runs of its timer.
    const ms = this.#monitor.percentile(99) / 1e6 - RESOLUTION_MS;
    return Number.isFinite(ms) ? Math.max(0, ms) : 0;
  }
}
