/**
 * What a process remembers of the last claim of each agent in each cell, so that the next claim starts at the right place. Losing a mark
 * costs time only.
 *
 * A claim scans an index, oldest first, and finished deliveries stay in the index until vacuum removes them, which it cannot do while an older
 * snapshot is held: beside pg_dump, with 80,000 finished deliveries, a claim of 10 took 8 ms instead of 0.6, and 1.4 from a watermark on
 * (bench/NOTES.md). No setting of vacuum helps. The watermark is the time since which the oldest claimable delivery could be claimed. A
 * delivery that becomes claimable later has a later time, with three exceptions: slow commits, claims that were rolled back, and webhooks
 * that are subscribed again. A margin and a periodic full scan cover these.
 */
import { DAY_MS } from '../../base/time/durations.ts';
import { uuidv7Milliseconds } from '../../store/ids.ts';
import type { Claimed, ClaimOrder, Days } from '../../store/queries/claims/order.ts';

/** A delivery's time is the start of its transaction. A full scan finds deliveries whose commits take longer than this margin. */
const MARGIN_MS = 10_000;
const FULL_SCAN_EVERY_MS = 15_000;
const ASIDE_EVERY_MS = 1_000;
/** Maximum agents in memory. At this number all are dropped, and the next claim of each agent sets its marks again. */
const AGENTS_MAX = 10_000;
/** Timestamp for Postgres: start at the first delivery. */
const FROM_FIRST = '-infinity';

interface Mark {
  /** The watermark: timestamp text for Postgres, by the clock of the cell, margin subtracted. */
  claimableFrom: string;
  /** Time of the next full scan, by the monotonic clock of this process. */
  fullScanAtMs: number;
  /** When deliveries that are held by their key are next set aside, see queries/claims/held.ts; by the same clock. */
  asideAtMs: number;
  /**
   * The webhook at which the last claim ended: the next one continues round robin from there. Each process keeps its own turns; each webhook
   * still gets its share of the claims that a process serves.
   */
  afterWebhookId: string | null;
  /** The days of the last claim's events. The next claim reads events of these days with its leases, and others by another statement. */
  days: Days;
}

interface MarksOfAgent {
  /** By the number of the cell. */
  readonly cells: Map<number, Mark>;
  /** The cell that the last claim ended in. */
  lastCell: number | null;
}

/** The marks of all agents in a process. */
export class ClaimMarks {
  readonly #agents = new Map<string, MarksOfAgent>();

  /** Where the next claim of an agent in a cell starts. Before its first one: at the first delivery and webhook, with the events of today. */
  start(agentId: string, cell: number): Pick<ClaimOrder, 'claimableFrom' | 'afterWebhookId' | 'days'> {
    const nowMs = performance.now();
    const mark = this.#agents.get(agentId)?.cells.get(cell);
    if (mark === undefined)
      return { claimableFrom: FROM_FIRST, afterWebhookId: null, days: daysOf(Date.now(), Date.now()) };
    if (nowMs < mark.fullScanAtMs) return mark;
    mark.fullScanAtMs = nowMs + FULL_SCAN_EVERY_MS;
    return { ...mark, claimableFrom: FROM_FIRST };
  }

  /** Whether a claim of an ordered agent sets aside the deliveries that are held by their key first: at most once a second. */
  setsAside(agentId: string, cell: number): boolean {
    const nowMs = performance.now();
    const mark = this.#of(agentId, cell);
    if (nowMs < mark.asideAtMs) return false;
    mark.asideAtMs = nowMs + ASIDE_EVERY_MS;
    return true;
  }

  /**
   * Records the end of a claim in a cell.
   * @param oldestMs since when the oldest delivery of all webhooks could be claimed, Unix milliseconds; null: not known
   * @param lastWebhookId webhook at which the round ended; null: none
   */
  end(
    agentId: string,
    cell: number,
    {
      claimed,
      oldestMs,
      lastWebhookId,
    }: { claimed: readonly Claimed[]; oldestMs: number | null; lastWebhookId: string | null },
  ): void {
    if (claimed.length === 0 && oldestMs === null) return;
    const mark = this.#of(agentId, cell);
    if (oldestMs !== null) mark.claimableFrom = new Date(oldestMs - MARGIN_MS).toISOString();
    if (lastWebhookId !== null) mark.afterWebhookId = lastWebhookId;
    if (claimed.length === 0) return;
    const received = claimed.map(({ eventId }) => uuidv7Milliseconds(eventId));
    mark.days = daysOf(Math.min(...received), Math.max(...received));
    this.#agents.get(agentId)!.lastCell = cell;
  }

  /** Timestamp for Postgres at which the query for waiting claims starts its scan: the earliest watermark of all cells. */
  oldestFrom(agentId: string): string {
    const all = [...(this.#agents.get(agentId)?.cells.values() ?? [])].map(({ claimableFrom }) => claimableFrom);
    return all.reduce((one, other) => (one === FROM_FIRST || one < other ? one : other), all[0] ?? FROM_FIRST);
  }

  /** The cells, starting after the one in which the agent's last claim ended. */
  inTurn<Cell extends { number: number }>(agentId: string, cells: readonly Cell[]): readonly Cell[] {
    if (cells.length === 1) return cells;
    const last = this.#agents.get(agentId)?.lastCell ?? null;
    const next = cells.findIndex(({ number }) => number === last) + 1;
    return [...cells.slice(next), ...cells.slice(0, next)];
  }

  #of(agentId: string, cell: number): Mark {
    const known = this.#agents.get(agentId)?.cells.get(cell);
    if (known !== undefined) return known;
    if (this.#agents.size >= AGENTS_MAX && !this.#agents.has(agentId)) this.#agents.clear();
    const ofAgent = this.#agents.get(agentId) ?? { cells: new Map(), lastCell: null };
    this.#agents.set(agentId, ofAgent);
    const fullScanAtMs = performance.now() + FULL_SCAN_EVERY_MS;
    const mark = {
      claimableFrom: FROM_FIRST,
      fullScanAtMs,
      asideAtMs: 0,
      afterWebhookId: null,
      days: daysOf(Date.now(), Date.now()),
    };
    ofAgent.cells.set(cell, mark);
    return mark;
  }
}

/** Webhook at which the round over webhooks ended; null: nothing was claimed. */
export function lastInRound(claimed: readonly Claimed[]): string | null {
  return claimed.reduce<Claimed | null>((a, b) => (a !== null && a.place > b.place ? a : b), null)?.webhookId ?? null;
}

/** The range of whole days (UTC) that contains both times, which are Unix milliseconds. */
function daysOf(fromMs: number, toMs: number): Days {
  return { from: startOfDay(fromMs), to: startOfDay(toMs + DAY_MS) };
}

function startOfDay(ms: number): string {
  return new Date(Math.floor(ms / DAY_MS) * DAY_MS).toISOString();
}
