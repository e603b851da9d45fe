/**
 * What a process remembers of the last claim of each agent, cell by cell, so that the next claim starts at the right place: its watermark,
 * its turn among the webhooks, and the days of its events. Losing it costs time only.
 */
import { DAY_MS } from '../../base/time/durations.ts';
import { uuidv7Milliseconds } from '../../store/ids.ts';
import type { Days } from '../../store/queries/claims/order.ts';
import { AGENTS_MAX, ClaimWatermarks, FROM_FIRST } from './watermarks.ts';

/** The last value of each agent. At AGENTS_MAX all are dropped. */
class LastOfAgent<Value> {
  readonly #values = new Map<string, Value>();

  of(agentId: string): Value | undefined {
    return this.#values.get(agentId);
  }

  record(agentId: string, value: Value): void {
    if (this.#values.size >= AGENTS_MAX && !this.#values.has(agentId)) this.#values.clear();
    this.#values.set(agentId, value);
  }
}

/**
 * The days of whose events an agent has deliveries, as its last claim showed: a claim reads the events of these days with its leases, and
 * those of others with another statement.
 */
export class ClaimDays {
  readonly #last = new LastOfAgent<Days>();

  /** Today for an agent that has not claimed yet. @param nowMs Unix milliseconds */
  forClaim(agentId: string, nowMs: number): Days {
    return this.#last.of(agentId) ?? { from: startOfDay(nowMs), to: startOfDay(nowMs + DAY_MS) };
  }

  /** @param eventIds of the events of a claim, UUIDv7s of their times of receipt */
  record(agentId: string, eventIds: readonly string[]): void {
    if (eventIds.length === 0) return;
    const oldest = eventIds.reduce((one, other) => (one < other ? one : other));
    const newest = eventIds.reduce((one, other) => (one > other ? one : other));
    this.#last.record(agentId, {
      from: startOfDay(uuidv7Milliseconds(oldest)),
      to: startOfDay(uuidv7Milliseconds(newest) + DAY_MS),
    });
  }
}

/** The marks of claims in one cell. */
interface MarksOfCell {
  watermarks: ClaimWatermarks;
  /**
   * The webhook at which the agent's last claim ended: the next one continues round robin from there. Each process keeps its own turns; each
   * webhook still gets its share of the claims that a process serves.
   */
  turns: LastOfAgent<string>;
  days: ClaimDays;
}

/** The marks of claims: each cell has its own, by its own clock. */
export class ClaimMarks {
  readonly #cells = new Map<number, MarksOfCell>();
  /** The cell that an agent's last claim ended in. */
  readonly #last = new LastOfAgent<number>();

  of(cell: number): MarksOfCell {
    const known = this.#cells.get(cell);
    if (known !== undefined) return known;
    const marks = { watermarks: new ClaimWatermarks(), turns: new LastOfAgent<string>(), days: new ClaimDays() };
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
    const next = cells.findIndex(({ number }) => number === this.#last.of(agentId)) + 1;
    return [...cells.slice(next), ...cells.slice(0, next)];
  }

  /** A claim ended in this cell. */
  ended(agentId: string, cell: number): void {
    this.#last.record(agentId, cell);
  }
}

function startOfDay(ms: number): string {
  return new Date(Math.floor(ms / DAY_MS) * DAY_MS).toISOString();
}
