/** How late the event loop is, second by second. Only the sampler ends a second: however many read the largest, none changes it. */
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Seconds that `largest` looks back on: as long as most scrape intervals, so that no peak is missed. */
export const LAG_WINDOW_SECONDS = 60;

export class LoopLag {
  readonly #monitor = monitorEventLoopDelay({ resolution: 10 });
  /** Milliseconds, the newest last. */
  readonly #window: number[] = [];

  constructor() {
    this.#monitor.enable();
  }

  /** Once a second: 99th percentile in milliseconds since the last call. */
  take(): number {
    const ms = this.#now();
    this.#monitor.reset();
    this.#window.push(ms);
    if (this.#window.length > LAG_WINDOW_SECONDS) this.#window.shift();
    return ms;
  }

  /** The largest of the last LAG_WINDOW_SECONDS seconds and of the one under way. */
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
