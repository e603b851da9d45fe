/**
 * From what time on an agent has something to claim, learnt from its claims: a shortcut past what is finished.
 *
 * Finished deliveries stay in the index that claims walk, oldest first, until vacuum takes them out, which it may not while any
 * snapshot is older: during pg_dump each claim passes everything that was finished since. Measured (Postgres 15, processor time
 * of a claim of 10 in ms, median of 9; the least and most of three repeats):
 *
 *                                       snapshot held    none held
 *     nothing finished yet              0.56 to 0.67     0.56 to 0.58
 *     80,000 finished                   7.6  to 9.5      1.2  to 1.6
 *       from the floor                  1.4              0.66 to 0.74
 *       from the oldest, after VACUUM   8.2  to 8.9      0.59 to 0.61
 *
 * So vacuum settings cannot help while the snapshot lasts; nor did fillfactor 50 (9.8 beside 8.6, one run). Partitions keep
 * Postgres's own settings: without a snapshot the first claim to pass 300,000 finished ones took 70 ms more and marked their entries,
 * the next ones 1.3 ms more until a VACUUM, which itself took 211 ms.
 *
 * A claim meets the oldest of each webhook: what is older than the oldest that it met was not claimable. What becomes claimable later
 * has a later time, but for commits that took long, claims that were rolled back, and webhooks that are subscribed to again: for
 * them there is a margin, and a look at everything now and then.
 */

/** A delivery's time is that of its transaction's begin; commits that take longer are found by the look at everything. */
const MARGIN_MS = 10_000;
const EVERYWHERE_EVERY_MS = 15_000;
/** Agents that are remembered; they are forgotten together, since each is learnt anew by one claim. */
const AGENTS_MAX = 10_000;

/** For the database: from the first delivery on. */
const EVERYWHERE = '-infinity';

interface Floor {
  /** By the database's clock, margin included, as it reads it. */
  from: string;
  /** When a claim looks at everything again; by our own clock. */
  everywhereAtMs: number;
}

export class Floors {
  readonly #floors = new Map<string, Floor>();

  /** Where a claim may begin to look. @param nowMs of a clock that only goes forward */
  forClaim(agentId: string, nowMs: number): string {
    const floor = this.#floors.get(agentId);
    if (floor === undefined) return EVERYWHERE;
    if (nowMs < floor.everywhereAtMs) return floor.from;
    floor.everywhereAtMs = nowMs + EVERYWHERE_EVERY_MS;
    return EVERYWHERE;
  }

  /** Where a look for waiting claims may begin. */
  forLook(agentId: string): string {
    return this.#floors.get(agentId)?.from ?? EVERYWHERE;
  }

  /** The oldest delivery that a claim of all the agent's webhooks met had been claimable since then (Unix milliseconds). */
  learn(agentId: string, oldestSinceMs: number, nowMs: number): void {
    const from = new Date(oldestSinceMs - MARGIN_MS).toISOString();
    const floor = this.#floors.get(agentId);
    if (floor !== undefined) {
      floor.from = from;
      return;
    }
    if (this.#floors.size >= AGENTS_MAX) this.#floors.clear();
    this.#floors.set(agentId, { from, everywhereAtMs: nowMs + EVERYWHERE_EVERY_MS });
  }

  /** Something lies below: the next claim looks at everything. */
  forget(agentId: string): void {
    this.#floors.delete(agentId);
  }
}
