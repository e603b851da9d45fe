/** The last HISTORY_SECONDS, second by second, and the newest state in full. The primary and each process have one. */
import { HISTORY_SECONDS, type Live, type Second } from './counters.ts';

export class History {
  readonly #seconds: Second[];
  /** Null until the primary has sent the first state. */
  latest: Live | null = null;

  constructor(seconds: readonly Second[] = []) {
    this.#seconds = [...seconds];
  }

  /** Oldest first. */
  get seconds(): readonly Second[] {
    return this.#seconds;
  }

  add(live: Live): void {
    this.latest = live;
    this.#seconds.push(live.second);
    if (this.#seconds.length > HISTORY_SECONDS) this.#seconds.shift();
  }
}
