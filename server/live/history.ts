/** The last minutes, second by second, and the newest state in full; one in the primary, one in each process. */
import { HISTORY_SECONDS, type Live, type Second } from './counters.ts';

export class History {
  readonly #seconds: Second[];
  /** Null: nothing has come from the primary yet. */
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
