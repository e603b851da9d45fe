/** Counts in memory how long events take, and writes the counts every minute in one statement. */
import { BUCKETS, bucketOf, type LatencyStage, latencyStages, RETRIED } from '../../model/latency.ts';
import { WriteBehind } from '../../receive/ingest/write-behind.ts';
import { uuidv7Milliseconds } from '../../store/ids.ts';
import type { Claimed } from '../../store/queries/claim-order.ts';
import type { LatencyRow } from '../../store/queries/latency.ts';
import type { Acknowledged } from '../../store/queries/settle-deliveries.ts';

const EVERY_MS = 60_000;
const HOUR_MS = 3_600_000;
/** Places of the counts of a webhook or an agent: the buckets of each stage, then the retries. */
const RETRIES = BUCKETS * latencyStages.length;
/** A delivery that could first be claimed so long after the receipt of its event was not created with it. */
const LATE_MS = 60_000;
/** Such deliveries that this process remembers until they are acknowledged. */
const LATE_MAX = 10_000;
const stageStart = Object.fromEntries(latencyStages.map((stage, place) => [stage, place * BUCKETS])) as Record<
  LatencyStage,
  number
>;

export class LatencyCounts {
  readonly #nowMs: () => number;
  /**
   * Of a webhook or an agent: a place, its count, another place, its count, and so on. Times of a minute are in few places: 0.3 KB each instead
   * of 3 KB for all places, which were 200 MB of a process with 70,000 webhooks in use.
   */
  readonly #counts = new Map<string, number[]>();
  readonly #rows: WriteBehind<LatencyRow>;
  /** Ids of deliveries under lease that are not timed. */
  readonly #late = new Set<string>();

  /** @param nowMs Unix milliseconds */
  constructor(write: (rows: readonly LatencyRow[]) => Promise<void>, nowMs: () => number = Date.now) {
    this.#nowMs = nowMs;
    const collect = () => this.#collect();
    const sum = (row: LatencyRow, other: LatencyRow) => ({ ...row, count: row.count + other.count });
    this.#rows = new WriteBehind((rows) => write([...rows.values()]), sum, { everyMs: EVERY_MS, collect });
  }

  /** A request was stored. @param receivedMs Unix milliseconds */
  stored(webhookId: string, receivedMs: number): void {
    this.#add(webhookId, stageStart.stored + bucketOf(this.#nowMs() - receivedMs));
  }

  /**
   * An agent leased deliveries: first claims, and retries. What was replayed is not timed, since it is old. A replay that creates a delivery is
   * known by the time since which it could be claimed, and so is an event that waited in the spool.
   */
  claimed(agentId: string, claimed: readonly Claimed[]): void {
    const nowMs = this.#nowMs();
    for (const { id, lease, attempt, eventId, webhookId, sinceMs } of claimed) {
      const receivedMs = uuidv7Milliseconds(eventId);
      if (lease > 1) {
        if (attempt > 1) this.#count(agentId, webhookId, RETRIES);
      } else if (sinceMs - receivedMs > LATE_MS) {
        if (this.#late.size < LATE_MAX) this.#late.add(id);
      } else this.#count(agentId, webhookId, stageStart.claimed + bucketOf(nowMs - receivedMs));
    }
  }

  /** An agent acknowledged deliveries. What was replayed or returned is not timed. */
  acknowledged(agentId: string, acknowledged: readonly Acknowledged[]): void {
    const nowMs = this.#nowMs();
    for (const { id, lease, attempts, webhookId } of acknowledged) {
      if (this.#late.delete(id) || lease !== attempts) continue;
      this.#count(agentId, webhookId, stageStart.acknowledged + bucketOf(nowMs - uuidv7Milliseconds(id)));
    }
  }

  /** Writes the counts after any write under way. After an error they are kept, with their hour, for the next write. */
  flush(): Promise<void> {
    return this.#rows.flush();
  }

  close(): Promise<void> {
    return this.#rows.close();
  }

  #count(agentId: string, webhookId: string, place: number): void {
    this.#add(agentId, place);
    this.#add(webhookId, place);
  }

  #add(subjectId: string, place: number): void {
    const counts = this.#counts.get(subjectId);
    if (counts === undefined) {
      this.#counts.set(subjectId, [place, 1]);
      return;
    }
    for (let i = 0; i < counts.length; i += 2)
      if (counts[i] === place) {
        counts[i + 1]!++;
        return;
      }
    counts.push(place, 1);
  }

  /** Moves the counts into rows of this hour. */
  #collect(): void {
    const atMs = Math.floor(this.#nowMs() / HOUR_MS) * HOUR_MS;
    // What was never acknowledged here would fill it.
    if (this.#late.size >= LATE_MAX) this.#late.clear();
    for (const [subjectId, counts] of this.#counts)
      for (let i = 0; i < counts.length; i += 2) {
        const [place, count] = [counts[i]!, counts[i + 1]!];
        const stage = place === RETRIES ? RETRIED : Math.floor(place / BUCKETS);
        const bucket = place % BUCKETS;
        this.#rows.note(`${atMs} ${subjectId} ${place}`, { subjectId, stage, bucket, count, atMs });
      }
    this.#counts.clear();
  }
}
