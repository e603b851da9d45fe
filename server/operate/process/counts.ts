/** Counts in memory how long events take, and how the attempts of agents end, and writes the counts from time to time. */
import type { Metrics } from '../../base/telemetry/metrics.ts';
import { HOUR_MS, MINUTE_MS } from '../../base/time/durations.ts';
import { BUCKETS, bucketOf, type LatencyStage, latencyStages, RETRIED } from '../../model/latency.ts';
import { uuidv7Milliseconds } from '../../store/ids.ts';
import type { AgentHistoryRow } from '../../store/queries/agents/history.ts';
import type { Claimed } from '../../store/queries/claims/order.ts';
import type { Acknowledged } from '../../store/queries/claims/settle.ts';
import type { LatencyRow } from '../../store/queries/webhooks/latency.ts';
import { type Slot, WriteBehind } from '../../store/write-behind.ts';

const EVERY_MS = 60_000;
/** The counters of a webhook or an agent in an hour: the buckets of each stage, then the retries. */
const RETRIES = BUCKETS * latencyStages.length;
const COUNTERS = RETRIES + 1;
/**
 * A delivery that became claimable this long after its event was received is a replay, or its event waited in the spool: it is not timed.
 */
const LATE_MS = 60_000;
/** Number of such deliveries that are remembered until their acknowledgement. */
const LATE_MAX = 10_000;
const stageStart = Object.fromEntries(latencyStages.map((stage, index) => [stage, index * BUCKETS])) as Record<
  LatencyStage,
  number
>;

/** How long events take. */
export class LatencyCounts {
  /**
   * By webhook and by agent: pairs of the index of a counter and its count. The times of a minute use few counters: 0.3 KB instead of 3
   * KB for all counters, which were 200 MB of a process with 70,000 webhooks in use.
   */
  readonly #counts: WriteBehind<number[]>;
  /** Ids of deliveries under lease that are not timed. */
  readonly #late = new Set<string>();

  constructor(write: (rows: readonly LatencyRow[]) => Promise<void>) {
    this.#counts = new WriteBehind((counts) => write(rowsOf(counts)), sumOf, {
      everyMs: EVERY_MS,
      rowsOf: ({ length }) => length / 2,
    });
  }

  /** A request was stored. @param counts those of its webhook @param receivedMs Unix milliseconds */
  stored(counts: Slot<number[]>, receivedMs: number): void {
    const nowMs = Date.now();
    const index = stageStart.stored + bucketOf(nowMs - receivedMs) + firstIndexAt(nowMs);
    if (counts.value === null) this.#counts.noteIn(counts, [index, 1]);
    else add(counts.value, index, 1);
  }

  /**
   * An agent leased deliveries: times first claims, and counts retries. Replays, and events that waited in the spool, are old and not timed.
   * A replay that creates a delivery, and an event from the spool, have `sinceMs` long after the receipt.
   */
  claimed(agentId: string, claimed: readonly Claimed[]): void {
    const nowMs = Date.now();
    for (const { id, lease, attempt, eventId, webhookId, sinceMs } of claimed) {
      const receivedMs = uuidv7Milliseconds(eventId);
      if (lease > 1) {
        if (attempt > 1) this.#count(agentId, webhookId, nowMs, RETRIES);
      } else if (sinceMs - receivedMs > LATE_MS) {
        // Deliveries that are acknowledged elsewhere would fill the set.
        if (this.#late.size >= LATE_MAX) this.#late.clear();
        this.#late.add(id);
      } else this.#count(agentId, webhookId, nowMs, stageStart.claimed + bucketOf(nowMs - receivedMs));
    }
  }

  /** An agent acknowledged deliveries. What was replayed or returned is not timed. */
  acknowledged(agentId: string, acknowledged: readonly Acknowledged[]): void {
    const nowMs = Date.now();
    for (const { id, lease, attempts, webhookId } of acknowledged) {
      if (this.#late.delete(id) || lease !== attempts) continue;
      this.#count(agentId, webhookId, nowMs, stageStart.acknowledged + bucketOf(nowMs - uuidv7Milliseconds(id)));
    }
  }

  close(): Promise<void> {
    return this.#counts.close();
  }

  #count(agentId: string, webhookId: string, nowMs: number, counter: number): void {
    for (const id of [agentId, webhookId]) this.#counts.note(id, [counter + firstIndexAt(nowMs), 1]);
  }
}

/** The first index of an hour; those of the next one follow. */
function firstIndexAt(ms: number): number {
  return Math.floor(ms / HOUR_MS) * COUNTERS;
}

function add(counts: number[], index: number, count: number): void {
  for (let i = 0; i < counts.length; i += 2)
    if (counts[i] === index) {
      counts[i + 1]! += count;
      return;
    }
  counts.push(index, count);
}

function sumOf(counts: number[], other: readonly number[]): number[] {
  for (let i = 0; i < other.length; i += 2) add(counts, other[i]!, other[i + 1]!);
  return counts;
}

function rowsOf(all: ReadonlyMap<string, readonly number[]>): LatencyRow[] {
  const rows: LatencyRow[] = [];
  for (const [subjectId, counts] of all)
    for (let i = 0; i < counts.length; i += 2) {
      const counter = counts[i]! % COUNTERS;
      const stage = counter === RETRIES ? RETRIED : Math.floor(counter / BUCKETS);
      const atMs = Math.floor(counts[i]! / COUNTERS) * HOUR_MS;
      rows.push({ subjectId, stage, bucket: counter % BUCKETS, count: counts[i + 1]!, atMs });
    }
  return rows;
}

const AGENTS_EVERY_MS = 10_000;

type Counted = Pick<Metrics, 'settled' | 'leasesExpired'>;

/** How the attempts of agents end. */
export class AgentCounts {
  readonly #rows: WriteBehind<AgentHistoryRow>;

  constructor(write: (rows: readonly AgentHistoryRow[]) => Promise<void>) {
    this.#rows = new WriteBehind((rows) => write([...rows.values()]), sumOfAgent, { everyMs: AGENTS_EVERY_MS });
  }

  /** The metrics of claims, with the leases that expired counted here too. What filters exclude is not an attempt. */
  ofClaims(metrics: Counted): Counted {
    return {
      settled: (agentId, outcome, deliveries) => {
        metrics.settled(agentId, outcome, deliveries);
        this.#note(agentId, 0, 0, deliveries);
      },
      leasesExpired: (agentId, leases) => {
        metrics.leasesExpired(agentId, leases);
        this.#note(agentId, 0, leases, 0);
      },
    };
  }

  /** The metrics of settlements, counted here too: acknowledged and rejected attempts. */
  ofSettlements(metrics: Pick<Counted, 'settled'>): Pick<Counted, 'settled'> {
    return {
      settled: (agentId, outcome, deliveries) => {
        metrics.settled(agentId, outcome, deliveries);
        if (outcome === 'acknowledged') this.#note(agentId, deliveries, 0, deliveries);
        else this.#note(agentId, 0, deliveries, outcome === 'dead' ? deliveries : 0);
      },
    };
  }

  close(): Promise<void> {
    return this.#rows.close();
  }

  #note(agentId: string, acknowledged: number, failed: number, ended: number): void {
    if (acknowledged + failed + ended === 0) return;
    const atMs = Math.floor(Date.now() / MINUTE_MS) * MINUTE_MS;
    this.#rows.note(`${atMs} ${agentId}`, { agentId, atMs, acknowledged, failed, ended });
  }
}

function sumOfAgent(row: AgentHistoryRow, other: AgentHistoryRow): AgentHistoryRow {
  const { acknowledged, failed, ended } = other;
  return {
    ...row,
    acknowledged: row.acknowledged + acknowledged,
    failed: row.failed + failed,
    ended: row.ended + ended,
  };
}
