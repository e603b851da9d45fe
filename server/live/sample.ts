/** What a process reports to the primary: its counters and the lag of its event loop. */
import { monitorEventLoopDelay } from 'node:perf_hooks';
import type { Metrics } from '../telemetry/metrics.ts';
import type { Totals } from './counters.ts';

/** Path prefix of the ingest routes. */
const INGEST_PREFIX = '/in/';

/** Counts since the start of the process. A duplicate event counts as neither accepted nor refused. */
export function totalsOf(metrics: Metrics): Totals {
  const totals = { accepted: metrics.commits().events, rejected: 0, limited: 0, refused: 0, failed: 0, requests: 0 };
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

/** Window of `largest`, in seconds: as long as most scrape intervals, so that no peak is missed. */
export const LAG_WINDOW_SECONDS = 60;

/**
 * Event loop lag, second by second. Only the sampler ends a second; reading `largest` changes nothing, so any number of readers
 * can share it.
 */
export class LoopLag {
  readonly #monitor = monitorEventLoopDelay({ resolution: 10 });
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
    const ms = this.#monitor.percentile(99) / 1e6;
    return Number.isFinite(ms) ? ms : 0;
  }
}
