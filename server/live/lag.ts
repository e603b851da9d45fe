/** How late the event loop is, for two readers: one each second, and one whenever metrics are asked for. */
import { monitorEventLoopDelay } from 'node:perf_hooks';

export class LoopLag {
  readonly #monitor = monitorEventLoopDelay({ resolution: 10 });
  #largestMs = 0;

  constructor() {
    this.#monitor.enable();
  }

  /** 99th percentile in milliseconds since the last call. */
  take(): number {
    const ms = this.#monitor.percentile(99) / 1e6;
    this.#monitor.reset();
    const known = Number.isFinite(ms) ? ms : 0;
    this.#largestMs = Math.max(this.#largestMs, known);
    return known;
  }

  /** The largest that `take` gave since the last call of this. */
  takeLargest(): number {
    this.take();
    const largestMs = this.#largestMs;
    this.#largestMs = 0;
    return largestMs;
  }

  stop(): void {
    this.#monitor.disable();
  }
}
