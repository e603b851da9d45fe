/**
 * An agent's watermark: the time of its oldest claimable delivery, learned from its claims. Claims start there and skip finished
 * deliveries.
 *
 * Claims scan an index, oldest first. Finished deliveries stay in it until vacuum removes them, which vacuum cannot do while an
 * older snapshot is held: during pg_dump each claim scans all deliveries finished since its start. Measured (Postgres 15, CPU time
 * of a claim of 10 in ms, median of 9; minimum and maximum of three runs):
 *
 *                                       snapshot held    none held
 *     nothing finished yet              0.56 to 0.67     0.56 to 0.58
 *     80,000 finished                   7.6  to 9.5      1.2  to 1.6
 *       from the watermark              1.4              0.66 to 0.74
 *       from the oldest, after VACUUM   8.2  to 8.9      0.59 to 0.61
 *
 * So vacuum settings do not help while the snapshot is held; fillfactor 50 did not help either (9.8 against 8.6, one run). Partitions
 * keep Postgres's default settings: without a snapshot, the first claim to scan 300,000 finished deliveries took 70 ms more and marked
 * their index entries, the next claims 1.3 ms more each until a VACUUM, which itself took 211 ms.
 *
 * A claim reads the oldest claimable delivery of its agent, so older ones were not claimable. Deliveries
 * that become claimable later have a later time, with three exceptions: slow commits, claims that were rolled back, and webhooks
 * that are subscribed again. A margin and a periodic full scan cover these.
 */

/** A delivery's time is the start of its transaction. A full scan finds deliveries whose commits take longer than this margin. */
const MARGIN_MS = 10_000;
const FULL_SCAN_EVERY_MS = 15_000;
/** Agents in memory. At this number all watermarks are dropped, and one claim per agent learns its watermark again. */
export const AGENTS_MAX = 10_000;

/** Timestamp for Postgres: start at the first delivery. */
export const FROM_FIRST = '-infinity';

interface Watermark {
  /** Timestamp text for Postgres, by the database clock, margin subtracted. */
  from: string;
  /** Time of the next full scan by a claim, by the monotonic clock of this process. */
  fullScanAtMs: number;
}

export class ClaimWatermarks {
  readonly #watermarks = new Map<string, Watermark>();

  /** Timestamp at which a claim starts its scan. @param nowMs monotonic clock, in milliseconds */
  forClaim(agentId: string, nowMs: number): string {
    const watermark = this.#watermarks.get(agentId);
    if (watermark === undefined) return FROM_FIRST;
    if (nowMs < watermark.fullScanAtMs) return watermark.from;
    watermark.fullScanAtMs = nowMs + FULL_SCAN_EVERY_MS;
    return FROM_FIRST;
  }

  /** Timestamp at which the query for waiting claims starts its scan. */
  forCheck(agentId: string): string {
    return this.#watermarks.get(agentId)?.from ?? FROM_FIRST;
  }

  /**
   * Sets the watermark after a claim over all the agent's webhooks.
   * @param oldestSinceMs since when the oldest delivery of the claim was claimable, in Unix milliseconds
   */
  learn(agentId: string, oldestSinceMs: number, nowMs: number): void {
    const from = new Date(oldestSinceMs - MARGIN_MS).toISOString();
    const watermark = this.#watermarks.get(agentId);
    if (watermark !== undefined) {
      watermark.from = from;
      return;
    }
    if (this.#watermarks.size >= AGENTS_MAX) this.#watermarks.clear();
    this.#watermarks.set(agentId, { from, fullScanAtMs: nowMs + FULL_SCAN_EVERY_MS });
  }

  /** Clears the watermark when claimable deliveries may be before it. The next claim scans everything. */
  forget(agentId: string): void {
    this.#watermarks.delete(agentId);
  }
}
