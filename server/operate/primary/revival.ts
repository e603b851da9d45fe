/** Starts an embedded server that has ended again: with longer pauses after each failure, and one line in the log for each reason. */
import type { Log } from '../../base/telemetry/log.ts';
import { backoffMs } from '../../base/time/backoff.ts';

const PAUSE = { firstMs: 1_000, maxMs: 15_000 };

export class Revival {
  readonly #revive: () => Promise<void>;
  readonly #log: Log;
  readonly #nowMs: () => number;
  #failures = 0;
  #dueMs = 0;
  #reported: string | null = null;

  /** @param revive does nothing while the server runs */
  constructor(revive: () => Promise<void>, log: Log, nowMs = () => performance.now()) {
    this.#revive = revive;
    this.#log = log;
    this.#nowMs = nowMs;
  }

  /** Tries it, unless the last failure was a moment ago. Never rejects. */
  async try(): Promise<void> {
    if (this.#nowMs() < this.#dueMs) return;
    try {
      await this.#revive();
      this.#failures = 0;
      this.#reported = null;
    } catch (error) {
      this.#dueMs = this.#nowMs() + backoffMs(this.#failures++, PAUSE, Math.random());
      const reason = (error as Error).message;
      // The lines after the first are from the log of Postgres, with times.
      const [cause] = reason.split('\n') as [string];
      if (cause !== this.#reported) this.#log('database_start_failed', { reason });
      this.#reported = cause;
    }
  }
}
