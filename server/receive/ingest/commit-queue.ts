/** Queue in front of the commit: groups of rows, each stored whole or not at all, removed in batches. */

export interface QueuedGroup<Row, Outcome> {
  /** All rows go into the same commit. */
  rows: readonly Row[];
  /** Must not throw. */
  settle(outcome: Outcome): void;
}

export interface QueueLimits {
  /** QUEUE_EVENTS_MAX, of this queue alone: a queue that stopped must not refuse the events of another. */
  queueEventsMax: number;
  /** COMMIT_EVENTS_MAX */
  commitEventsMax: number;
}

/** Body bytes in one commit. A larger group is committed alone. */
const COMMIT_BYTES_MAX = 8_388_608;
/** Weight of the latest commit in the moving average of events per second. */
const RATE_WEIGHT = 0.2;

export class CommitQueue<Row extends { body: Uint8Array }, Outcome> {
  readonly #limits: QueueLimits;
  #waiting: QueuedGroup<Row, Outcome>[] = [];
  #eventsPerSecond = 0;
  /** Waiting rows, over all groups. */
  events = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get empty(): boolean {
    return this.#waiting.length === 0;
  }

  get groups(): number {
    return this.#waiting.length;
  }

  /** While true, callers must not push. The last group may exceed the limit; otherwise a group larger than the limit could never enter. */
  get full(): boolean {
    return this.events >= this.#limits.queueEventsMax;
  }

  push(group: QueuedGroup<Row, Outcome>): void {
    this.#waiting.push(group);
    this.events += group.rows.length;
  }

  /** Removes the oldest groups that fit into one commit, at most `groupsMax`. The first group is taken whatever its size. */
  takeBatch(groupsMax = Number.POSITIVE_INFINITY): QueuedGroup<Row, Outcome>[] {
    const { commitEventsMax } = this.#limits;
    let groups = 0;
    let events = 0;
    let bytes = 0;
    for (const { rows } of this.#waiting) {
      if (groups >= groupsMax) break;
      const nextEvents = events + rows.length;
      const nextBytes = bytes + bodyBytes(rows);
      if (groups > 0 && (nextEvents > commitEventsMax || nextBytes > COMMIT_BYTES_MAX)) break;
      groups++;
      events = nextEvents;
      bytes = nextBytes;
    }
    this.events -= events;
    return this.#waiting.splice(0, groups);
  }

  /** Removes all waiting groups and settles them with `outcome`. */
  settleAll(outcome: Outcome): void {
    this.events = 0;
    settleAll(this.#waiting.splice(0), outcome);
  }

  /** Records the size and duration of a commit. */
  measure(events: number, ms: number): void {
    const rate = (events * 1000) / Math.max(ms, 0.1);
    this.#eventsPerSecond += RATE_WEIGHT * (rate - this.#eventsPerSecond);
  }

  /** Estimated seconds until the present queue is committed, at the rate of recent commits; at least 1. */
  get drainSeconds(): number {
    return Math.max(1, Math.ceil(this.events / Math.max(1, this.#eventsPerSecond)));
  }
}

export function settleAll<Outcome>(
  batch: readonly Pick<QueuedGroup<unknown, Outcome>, 'settle'>[],
  outcome: Outcome,
): void {
  for (const group of batch) group.settle(outcome);
}

function bodyBytes(rows: readonly { body: Uint8Array }[]): number {
  let bytes = 0;
  for (const { body } of rows) bytes += body.length;
  return bytes;
}
