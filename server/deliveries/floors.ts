/**
 * An agent's floor: the time of its oldest claimable delivery, learned from its claims. Claims start there and skip finished
 * deliveries.
 *
 * Claims scan an index, oldest first. Finished deliveries stay in it until vacuum removes them, which vacuum cannot do while an
 * older snapshot is held: during pg_dump each claim scans all deliveries finished since its start. Measured (Postgres 15, CPU time
 * of a claim of 10 in ms, median of 9; minimum and maximum of three runs):
 *
 *                                       snapshot held    none held
 *     nothing finished yet              0.56 to 0.67     0.56 to 0.58
 *     80,000 finished                   7.6  to 9.5      1.2  to 1.6
 *       from the floor                  1.4              0.66 to 0.74
 *       from the oldest, after VACUUM   8.2  to 8.9      0.59 to 0.61
 *
 * So vacuum settings do not help while the snapshot is held; fillfactor 50 did not help either (9.8 against 8.6, one run). Partitions
 * keep Postgres's default settings: without a snapshot, the first claim to scan 300,000 finished deliveries took 70 ms more and marked
 * their index entries, the next claims 1.3 ms more each until a VACUUM, which itself took 211 ms.
 *
 * A claim reads the oldest claimable delivery of each webhook, so deliveries older than all of these were not claimable. Deliveries
 * that become claimable later have a later time, with three exceptions: slow commits, claims that were rolled back, and webhooks
 * that are subscribed again. A margin and a periodic full scan cover these.
 */

/** A delivery's time is the start of its transaction. A full scan finds deliveries whose commits take longer than this margin. */
const MARGIN_MS = 10_000;
const EVERYWHERE_EVERY_MS = 15_000;
/** Agents in memory. At this number all floors are cleared; one claim per agent learns its floor again. */
const AGENTS_MAX = 10_000;

/** Timestamp for Postgres: start at the first delivery. */
const EVERYWHERE = '-infinity';

interface Floor {
  /** Timestamp text for Postgres, by the database clock, margin subtracted. */
  from: string;
  /** Time of the next full scan by a claim, by the monotonic clock of this process. */
  everywhereAtMs: number;
}

export class Floors {
  readonly #floors = new Map<string, Floor>();

  /** Timestamp at which a claim starts its scan. @param nowMs monotonic clock, in milliseconds */
  forClaim(agentId: string, nowMs: number): string {
    const floor = this.#floors.get(agentId);
    if (floor === undefined) return EVERYWHERE;
    if (nowMs < floor.everywhereAtMs) return floor.from;
    floor.everywhereAtMs = nowMs + EVERYWHERE_EVERY_MS;
    return EVERYWHERE;
  }

  /** Timestamp at which the query for waiting claims starts its scan. */
  forLook(agentId: string): string {
    return this.#floors.get(agentId)?.from ?? EVERYWHERE;
  }

  /**
   * Sets the floor after a claim over all the agent's webhooks.
   * @param oldestSinceMs since when the oldest delivery of the claim was claimable, in Unix milliseconds
   */
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

  /** Clears the floor when claimable deliveries may be below it. The next claim scans everything. */
  forget(agentId: string): void {
    this.#floors.delete(agentId);
  }
}
