/**
 * Event loop lag, second by second. Only the sampler ends a second; reading `largest` changes nothing, so any number of readers
 * can share it.
 */
import { monitorEventLoopDelay } from 'node:perf_hooks';

/** Window of `largest`, in seconds: as long as most scrape intervals, so that no peak is missed. */
export const LAG_WINDOW_SECONDS = 60;

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
