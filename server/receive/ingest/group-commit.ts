/**
 * Step `commit`: group commit. Requests wait in a queue; a lane commits many of them at once, and the next batch is collected while
 * a commit runs. A request gets 202 only after its commit.
 */
import { sqlStateKind } from '../../store/connect/unavailable.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';
import type { CommitOutcome, Lane } from './copy-lane.ts';

/** Result of storing the rows of one request, all or none. */
export type StoreOutcome =
  /** `duplicates`: by index of the row, the id of the event that already had the row's key. All other rows are new events. */
  | { kind: 'stored'; duplicates: ReadonlyMap<number, string> }
  /** The database refuses a row; a retry would fail as well. */
  | { kind: 'refused' }
  | { kind: 'queue_full'; retryAfterSeconds: number }
  | { kind: 'unavailable'; retryAfterSeconds: number };

/** The events of one request. All go into the same commit: either each has its own deduplication key, or none has a key. */
export interface QueuedGroup {
  rows: readonly EventRow[];
  /** Called once: after the commit, or with the reason why the events were not stored. Must not throw. */
  report(outcome: StoreOutcome): void;
}

export interface EventGroup extends QueuedGroup {
  /** The cell of the webhook. */
  readonly cell: number;
}

export interface QueueLimits {
  /** QUEUE_EVENTS_MAX, for each queue separately: one that does not commit must not make another one refuse events. */
  queueEventsMax: number;
  commitEventsMax: number;
}

export interface CommitObserver {
  /** A commit of the rows succeeded. `events`: how many of them are new. `ms`: its duration. */
  committed(events: number, ms: number, rows: readonly EventRow[]): void;
  /** Events were not stored because their keys exist. */
  repeated(events: number): void;
  /** The result of a commit of `events` events was lost; `found` of them are stored. */
  inDoubt(events: number, found: number): void;
  /** The server refused the rows of one batch. `rows` is empty for a trial commit. */
  refused(rows: readonly EventRow[], sqlState: string, message: string): void;
}

/** From this batch size in requests, another batch is likely to follow: its commit is prepared in advance. */
const BEGIN_AHEAD_REQUESTS = 8;
/** From this number of requests, a second commit runs beside the first. Fewer waiting requests are not split. */
const COMMIT_REQUESTS_MIN = 128;
/** Body bytes in one commit. A larger group is committed alone. */
const COMMIT_BYTES_MAX = 8_388_608;
/** Weight of the latest commit in the moving average of events per second. */
const RATE_WEIGHT = 0.2;

export const notStoredNow: StoreOutcome = { kind: 'unavailable', retryAfterSeconds: 1 };
const refused: StoreOutcome = { kind: 'refused' };
/** One object for all requests without duplicates. */
const stored: StoreOutcome = { kind: 'stored', duplicates: new Map() };

/**
 * If one commit took all waiting requests, all senders would move in step: the event loop would be idle while Postgres works, and
 * Postgres while the loop writes answers. Therefore a commit takes half of the waiting requests when there are two lanes. Both lanes may
 * commit at once; the second one commits only a batch of COMMIT_REQUESTS_MIN or more. While one lane commits, the other has already
 * begun its commit, so the next batch is sent whole before the answers of the previous batch are written. This gives 1.15 times the
 * requests/s of commits that take all waiting requests (bench/NOTES.md).
 */
export class GroupCommit {
  readonly #lanes: readonly Lane[];
  readonly #limits: QueueLimits;
  readonly #observer: CommitObserver;
  /** Lanes without a batch, longest free first. A lane with a batch in doubt is not free. */
  readonly #free: Lane[];
  #waiting: QueuedGroup[] = [];
  #queued = 0;
  #eventsPerSecond = 0;
  /** Running commits. */
  #committing = 0;
  #scheduled = false;

  constructor(lanes: readonly Lane[], limits: QueueLimits, observer: CommitObserver) {
    this.#lanes = lanes;
    this.#limits = limits;
    this.#observer = observer;
    this.#free = [...lanes];
  }

  /** Stores the rows in one commit. The last group may exceed the queue's limit: otherwise a group above the limit could never be stored. */
  add(group: QueuedGroup): void {
    if (!this.available) return group.report(notStoredNow);
    if (this.#queued >= this.#limits.queueEventsMax)
      return group.report({ kind: 'queue_full', retryAfterSeconds: this.#drainSeconds });
    this.#waiting.push(group);
    this.#queued += group.rows.length;
    this.#schedule();
  }

  /** Events waiting for a commit. */
  get queued(): number {
    return this.#queued;
  }

  /** False while no lane can commit. */
  get available(): boolean {
    return this.#lanes.some(({ up }) => up);
  }

  /** Reports `unavailable` to all waiting requests. */
  clear(): void {
    this.#queued = 0;
    reportAll(this.#waiting.splice(0), notStoredNow);
  }

  /** Estimated seconds until the present queue is committed, at the rate of recent commits; at least 1. */
  get #drainSeconds(): number {
    return Math.max(1, Math.ceil(this.#queued / Math.max(1, this.#eventsPerSecond)));
  }

  /** Commits once per event-loop turn, when all requests verified in this turn are queued. */
  #schedule(): void {
    if (this.#scheduled || !this.#mayCommit) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#commitNext();
    });
  }

  /** Whether enough requests wait: one while no commit runs, otherwise COMMIT_REQUESTS_MIN. */
  get #mayCommit(): boolean {
    return this.#free.length > 0 && this.#waiting.length >= (this.#committing === 0 ? 1 : COMMIT_REQUESTS_MIN);
  }

  #commitNext(): void {
    if (!this.available) return this.clear();
    if (!this.#mayCommit) return;
    const index = this.#free.findIndex(({ up }) => up);
    if (index === -1) return;
    const [lane] = this.#free.splice(index, 1);
    const share = Math.ceil(this.#waiting.length / this.#lanes.length);
    void this.#commitOn(lane!, this.#takeBatch(Math.max(COMMIT_REQUESTS_MIN, share)));
  }

  /** Removes the oldest groups that fit into one commit, at most `groupsMax`. The first group is taken whatever its size. */
  #takeBatch(groupsMax: number): QueuedGroup[] {
    let groups = 0;
    let events = 0;
    let bytes = 0;
    for (const { rows } of this.#waiting) {
      if (groups >= groupsMax) break;
      const nextEvents = events + rows.length;
      let nextBytes = bytes;
      for (const { body } of rows) nextBytes += body.length;
      if (groups > 0 && (nextEvents > this.#limits.commitEventsMax || nextBytes > COMMIT_BYTES_MAX)) break;
      groups++;
      events = nextEvents;
      bytes = nextBytes;
    }
    this.#queued -= events;
    return this.#waiting.splice(0, groups);
  }

  async #commitOn(lane: Lane, batch: readonly QueuedGroup[]): Promise<void> {
    this.#committing++;
    const committing = this.#commit(lane, batch);
    if (batch.length >= BEGIN_AHEAD_REQUESTS) this.#free[0]?.begin?.();
    const outcome = await committing;
    this.#committing--;
    if (outcome.kind === 'committed') {
      this.#free.push(lane);
      this.#commitNext();
      // The next batch has been sent to Postgres when these answers are written.
      return reportStored(batch, outcome.eventIds);
    }
    // The other lane continues, because settling a failed batch on this one may take a while.
    this.#commitNext();
    await this.#report(lane, batch, outcome);
    this.#free.push(lane);
    this.#commitNext();
  }

  async #commit(lane: Lane, batch: readonly QueuedGroup[]): Promise<CommitOutcome> {
    const startedMs = performance.now();
    const rows = rowsOf(batch);
    const outcome = await lane.commit(rows);
    if (outcome.kind === 'committed') {
      const ms = performance.now() - startedMs;
      this.#eventsPerSecond += RATE_WEIGHT * ((rows.length * 1000) / Math.max(ms, 0.1) - this.#eventsPerSecond);
      const { eventIds } = outcome;
      const events = eventIds === undefined ? rows.length : rows.filter((row, i) => isOwn(row, eventIds[i]!)).length;
      const refused = eventIds?.filter((id) => id === null).length ?? 0;
      this.#observer.committed(events, ms, rows);
      if (events + refused < rows.length) this.#observer.repeated(rows.length - events - refused);
    }
    return outcome;
  }

  async #report(lane: Lane, batch: readonly QueuedGroup[], outcome: CommitOutcome): Promise<void> {
    if (outcome.kind === 'committed') return reportStored(batch, outcome.eventIds);
    if (outcome.kind === 'refused') return this.#reportRefused(lane, batch, outcome.sqlState, outcome.message);
    if (outcome.lookUp === null) return reportAll(batch, notStoredNow);
    const found = await outcome.lookUp();
    this.#observer.inDoubt(found.length, found.filter((id) => id !== null).length);
    // Requests whose rows are all found are stored; senders of the others get 503 and retry.
    reportStored(batch, found);
  }

  /** One bad row fails the whole commit. Halves of the batch are retried until the request with the bad row is alone. */
  async #reportRefused(lane: Lane, batch: readonly QueuedGroup[], sqlState: string, message: string): Promise<void> {
    const isFaultOfData = sqlStateKind(sqlState) === 'data';
    if (isFaultOfData && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      for (const half of [batch.slice(0, middle), batch.slice(middle)])
        await this.#report(lane, half, await this.#commit(lane, half));
      return;
    }
    this.#observer.refused(rowsOf(batch), sqlState, message);
    reportAll(batch, isFaultOfData ? refused : notStoredNow);
  }
}

function rowsOf(batch: readonly QueuedGroup[]): EventRow[] {
  const all: EventRow[] = [];
  for (const { rows } of batch) for (const row of rows) all.push(row);
  return all;
}

function reportAll(batch: readonly QueuedGroup[], outcome: StoreOutcome): void {
  for (const group of batch) group.report(outcome);
}

/** @param eventIds see CommitOutcome. */
function reportStored(batch: readonly QueuedGroup[], eventIds: readonly (string | null)[] | undefined): void {
  if (eventIds === undefined) return reportAll(batch, stored);
  let at = 0;
  for (const group of batch) {
    const { length } = group.rows;
    group.report(storedAs(group.rows, eventIds.slice(at, at + length)));
    at += length;
  }
}

/** @param eventIds for each row, the id of the event that has its key; null: the row is not stored, and the sender retries. */
function storedAs(rows: readonly EventRow[], eventIds: readonly (string | null)[]): StoreOutcome {
  const duplicates = new Map<number, string>();
  for (const [i, row] of rows.entries()) {
    const eventId = eventIds[i]!;
    if (eventId === null) return notStoredNow;
    if (!isOwn(row, eventId)) duplicates.set(i, eventId);
  }
  return duplicates.size === 0 ? stored : { kind: 'stored', duplicates };
}

function isOwn({ id }: EventRow, eventId: string | null): boolean {
  return uuidText(id) === eventId;
}
