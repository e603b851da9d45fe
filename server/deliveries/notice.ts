/** Notifies waiting claims of commits: directly in this process, and in other processes by a NOTIFY outside the commit. */

import { ARRIVALS_CHANNEL } from '../db/listen.ts';
import type { Database } from '../db/pool.ts';
import type { Arrivals } from './arrivals.ts';

/** Minimum time between two NOTIFYs. */
const GAP_MS = 10;

export class ArrivalNotice {
  readonly #database: Database;
  readonly #arrivals: Arrivals;
  readonly #isWanted: () => boolean;
  #scheduled = false;
  #lastMs = 0;

  /** @param isWanted false while there are no agents. */
  constructor(database: Database, arrivals: Arrivals, isWanted: () => boolean) {
    this.#database = database;
    this.#arrivals = arrivals;
    this.#isWanted = isWanted;
  }

  /** Reports a commit. The first commit after a pause is notified immediately; the following ones share a NOTIFY. */
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
    // A lost NOTIFY delays claims by at most a second, because waiting claims query once a second anyway.
    this.#database.query({ text: `notify ${ARRIVALS_CHANNEL}` }).catch(() => {});
  }
}
