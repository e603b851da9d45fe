/** Tells waiting claims of commits: those of this process at once, all others by a NOTIFY, outside the commit. */

import { ARRIVALS_CHANNEL } from '../db/listen.ts';
import type { Database } from '../db/pool.ts';
import type { Arrivals } from './arrivals.ts';

/** At most one NOTIFY in this time, however many commits. */
const GAP_MS = 10;

export class ArrivalNotice {
  readonly #database: Database;
  readonly #arrivals: Arrivals;
  readonly #isWanted: () => boolean;
  #scheduled = false;
  #lastMs = 0;

  /** @param isWanted false while there is nobody to tell. */
  constructor(database: Database, arrivals: Arrivals, isWanted: () => boolean) {
    this.#database = database;
    this.#arrivals = arrivals;
    this.#isWanted = isWanted;
  }

  /** The first commit after a pause is told at once, those that follow together. */
  committed(): void {
    if (!this.#isWanted()) return;
    this.#arrivals.heard();
    if (this.#scheduled) return;
    this.#scheduled = true;
    setTimeout(() => this.#notify(), Math.max(0, this.#lastMs + GAP_MS - performance.now()));
  }

  #notify(): void {
    this.#scheduled = false;
    this.#lastMs = performance.now();
    // One that is lost costs its claims a second: they look once a second anyway.
    this.#database.query({ text: `notify ${ARRIVALS_CHANNEL}` }).catch(() => {});
  }
}
