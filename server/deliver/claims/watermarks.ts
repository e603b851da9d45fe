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
 * A claim reads the oldest claimable delivery of each webhook, so deliveries older than all of these were not claimable. Deliveries
 * that become claimable later have a later time, with three exceptions: slow commits, claims that were rolled back, and webhooks
 * that are subscribed again. A margin and a periodic full scan cover these.
 */

import { DAY_MS } from '../../base/durations.ts';
import { uuidv7Milliseconds } from '../../store/ids.ts';

/** A delivery's time is the start of its transaction. A full scan finds deliveries whose commits take longer than this margin. */
const MARGIN_MS = 10_000;
const FULL_SCAN_EVERY_MS = 15_000;
/**
 * Agents in memory. At this number all watermarks, all turns or all days are cleared: one claim per agent learns its watermark again, and
 * each agent starts at its first webhook again.
 */
const AGENTS_MAX = 10_000;

/** Timestamp for Postgres: start at the first delivery. */
const FROM_FIRST = '-infinity';

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

/**
 * Round robin over an agent's webhooks: remembers where the last claim ended, so that the next claim continues there. Each process
 * keeps its own position; each webhook still gets its share of the claims that a process serves.
 */
class ClaimTurns {
  readonly #last = new Map<string, string>();

  /** Id of the webhook at which the agent's last claim ended; null if unknown. */
  last(agentId: string): string | null {
    return this.#last.get(agentId) ?? null;
  }

  /** Records the webhook at which a claim ended. */
  record(agentId: string, webhookId: string): void {
    if (this.#last.size >= AGENTS_MAX && !this.#last.has(agentId)) this.#last.clear();
    this.#last.set(agentId, webhookId);
  }
}

/** Bounds of times of receipt, ISO 8601: `from` included, `to` not. */
export interface Days {
  from: string;
  to: string;
}

/**
 * The days of whose events an agent has deliveries, as its last claim showed: a claim reads the events of these days with its leases, and
 * those of others with another statement.
 */
export class ClaimDays {
  readonly #last = new Map<string, Days>();

  /** Today for an agent that has not claimed yet. @param nowMs Unix milliseconds */
  forClaim(agentId: string, nowMs: number): Days {
    return this.#last.get(agentId) ?? { from: startOfDay(nowMs), to: startOfDay(nowMs + DAY_MS) };
  }

  /** @param eventIds of the events of a claim, UUIDv7s of their times of receipt */
  record(agentId: string, eventIds: readonly string[]): void {
    if (eventIds.length === 0) return;
    const oldest = eventIds.reduce((one, other) => (one < other ? one : other));
    const newest = eventIds.reduce((one, other) => (one > other ? one : other));
    if (this.#last.size >= AGENTS_MAX && !this.#last.has(agentId)) this.#last.clear();
    this.#last.set(agentId, {
      from: startOfDay(uuidv7Milliseconds(oldest)),
      to: startOfDay(uuidv7Milliseconds(newest) + DAY_MS),
    });
  }
}

/** The marks of claims in one cell. */
interface MarksOfCell {
  watermarks: ClaimWatermarks;
  turns: ClaimTurns;
  days: ClaimDays;
}

/** The marks of claims: each cell has its own, by its own clock. */
export class ClaimMarks {
  readonly #cells = new Map<number, MarksOfCell>();
  /** The cell that an agent's last claim ended in. */
  readonly #last = new Map<string, number>();

  of(cell: number): MarksOfCell {
    const known = this.#cells.get(cell);
    if (known !== undefined) return known;
    const marks = { watermarks: new ClaimWatermarks(), turns: new ClaimTurns(), days: new ClaimDays() };
    this.#cells.set(cell, marks);
    return marks;
  }

  /** Timestamp at which the query for waiting claims starts its scan, in every cell. */
  forCheck(agentId: string): string {
    const all = [...this.#cells.values()].map(({ watermarks }) => watermarks.forCheck(agentId));
    return all.reduce((one, other) => (one === FROM_FIRST || one < other ? one : other), all[0] ?? FROM_FIRST);
  }

  /** See ClaimWatermarks.forget. */
  forget(agentId: string): void {
    for (const { watermarks } of this.#cells.values()) watermarks.forget(agentId);
  }

  /** The cells, starting after the one in which the agent's last claim ended. */
  inTurn<Cell extends { number: number }>(agentId: string, cells: readonly Cell[]): readonly Cell[] {
    if (cells.length === 1) return cells;
    const next = cells.findIndex(({ number }) => number === this.#last.get(agentId)) + 1;
    return [...cells.slice(next), ...cells.slice(0, next)];
  }

  /** A claim ended in this cell. */
  ended(agentId: string, cell: number): void {
    if (this.#last.size >= AGENTS_MAX && !this.#last.has(agentId)) this.#last.clear();
    this.#last.set(agentId, cell);
  }
}

function startOfDay(ms: number): string {
  return new Date(Math.floor(ms / DAY_MS) * DAY_MS).toISOString();
}
