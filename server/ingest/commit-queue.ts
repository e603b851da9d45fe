/** What waits for its commit: groups of rows that are stored together or not at all, taken out in batches. */

export interface Waiting<Row, Outcome> {
  /** Never divided over two commits. */
  rows: readonly Row[];
  settle: (outcome: Outcome) => void;
}

export interface QueueLimits {
  /** QUEUE_EVENTS_MAX */
  queueEventsMax: number;
  /** COMMIT_EVENTS_MAX */
  commitEventsMax: number;
}

/** Bodies in one commit; a group that has more goes alone. */
const COMMIT_BYTES_MAX = 8_388_608;
/** Weight of the newest commit in the running mean of events a second. */
const RATE_WEIGHT = 0.2;

export class CommitQueue<Row extends { body: Uint8Array }, Outcome> {
  readonly #limits: QueueLimits;
  #waiting: Waiting<Row, Outcome>[] = [];
  #eventsPerSecond = 0;
  /** Rows of all groups that wait. */
  events = 0;

  constructor(limits: QueueLimits) {
    this.#limits = limits;
  }

  get empty(): boolean {
    return this.#waiting.length === 0;
  }

  /** Groups that wait. */
  get groups(): number {
    return this.#waiting.length;
  }

  /** While it is full nothing may be pushed. The last group is let in whole, or one of more rows than the limit never would be. */
  get full(): boolean {
    return this.events >= this.#limits.queueEventsMax;
  }

  /** Resolves with what the group is settled with. */
  push(rows: readonly Row[]): Promise<Outcome> {
    return new Promise((settle) => {
      this.#waiting.push({ rows, settle });
      this.events += rows.length;
    });
  }

  /** The oldest groups that fit into one commit, at most so many; the first one whatever its size. */
  takeBatch(groupsMax = Number.POSITIVE_INFINITY): Waiting<Row, Outcome>[] {
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

  /** Settles everything that waits. */
  settleAll(outcome: Outcome): void {
    this.events = 0;
    settleAll(this.#waiting.splice(0), outcome);
  }

  /** A commit of so many events took so long. */
  measure(events: number, ms: number): void {
    const rate = (events * 1000) / Math.max(ms, 0.1);
    this.#eventsPerSecond += RATE_WEIGHT * (rate - this.#eventsPerSecond);
  }

  /** When the queue of now will be committed, at the pace of the last commits. */
  get drainSeconds(): number {
    return Math.max(1, Math.ceil(this.events / Math.max(1, this.#eventsPerSecond)));
  }
}

export function settleAll<Outcome>(
  batch: readonly Pick<Waiting<unknown, Outcome>, 'settle'>[],
  outcome: Outcome,
): void {
  for (const { settle } of batch) settle(outcome);
}

function bodyBytes(rows: readonly { body: Uint8Array }[]): number {
  let bytes = 0;
  for (const { body } of rows) bytes += body.length;
  return bytes;
}
