/**
 * Step `commit`: group commit. Requests wait in a queue; a lane commits many of them at once, and the next batch is collected while
 * a commit runs. A request gets 202 only after its commit.
 */

import { sqlStateKind } from '../../store/connect/sql-states.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';
import { CommitQueue, type QueuedGroup, type QueueLimits, settleAll } from './commit-queue.ts';

/** Result of storing the rows of one request, all or none. */
export type StoreOutcome =
  /** `duplicates`: by index of the row, the id of the event that already had the row's key. All other rows are new events. */
  | { kind: 'stored'; duplicates: ReadonlyMap<number, string> }
  /** The database refuses a row; a retry would fail as well. */
  | { kind: 'refused' }
  | { kind: 'queue_full'; retryAfterSeconds: number }
  | { kind: 'unavailable'; retryAfterSeconds: number };

/** Result of one commit, for all its rows. */
export type CommitOutcome =
  /**
   * `eventIds`: for each row, the id of the event that has its key; null: it was not stored, because its webhook is moving to another
   * cell. Absent: every row is a new event.
   */
  | { kind: 'committed'; eventIds?: readonly (string | null)[] }
  | { kind: 'refused'; sqlState: string; message: string }
  /**
   * The connection was lost. `lookUp`: the rows may be committed or not, and this returns for each row the id of the event stored for
   * it, or null; it never rejects. Null: the rows count as not committed.
   */
  | { kind: 'lost'; lookUp: (() => Promise<readonly (string | null)[]>) | null };

/** A way to commit rows, one batch at a time. */
export interface Lane<Row> {
  /** False: a commit would fail now. */
  readonly up: boolean;
  /** Prepares the next commit before its rows are known. */
  begin(): void;
  /** Commits the rows, all or none. Never rejects. */
  commit(rows: readonly Row[]): Promise<CommitOutcome>;
}

export interface CommitObserver {
  /** A commit of the rows succeeded: its number of new events and its duration. */
  committed(events: number, ms: number, rows: readonly EventRow[]): void;
  /** Events were not stored because their keys exist. */
  repeated(events: number): void;
  /** The result of a commit of `events` events was lost; `found` of them are stored. */
  inDoubt(events: number, found: number): void;
  /** The server refused the rows of one batch. `rows` is empty for a trial commit. */
  refused(rows: readonly EventRow[], sqlState: string, message: string): void;
}

type Batch<Row> = QueuedGroup<Row, StoreOutcome>[];

/** From this batch size in requests, another batch is likely to follow: its commit is prepared in advance. */
const BEGIN_AHEAD_REQUESTS = 8;
/** From this number of requests, a second commit runs beside the first. Fewer waiting requests are not split. */
const COMMIT_REQUESTS_MIN = 128;

const unavailable: StoreOutcome = { kind: 'unavailable', retryAfterSeconds: 1 };
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
export class GroupCommit<Row extends EventRow> {
  readonly #lanes: readonly Lane<Row>[];
  readonly #queue: CommitQueue<Row, StoreOutcome>;
  readonly #observer: CommitObserver;
  /** Lanes without a batch, longest free first. A lane with a batch in doubt is not free. */
  readonly #free: Lane<Row>[];
  /** Running commits. */
  #committing = 0;
  #scheduled = false;

  constructor(lanes: readonly Lane<Row>[], limits: QueueLimits, observer: CommitObserver) {
    this.#lanes = lanes;
    this.#queue = new CommitQueue(limits);
    this.#observer = observer;
    this.#free = [...lanes];
  }

  /** Stores the rows in one commit, all or none. */
  add(group: QueuedGroup<Row, StoreOutcome>): void {
    if (!this.available) return group.settle(unavailable);
    if (this.#queue.full) return group.settle({ kind: 'queue_full', retryAfterSeconds: this.#queue.drainSeconds });
    this.#queue.push(group);
    this.#schedule();
  }

  /** Events waiting for a commit. */
  get queued(): number {
    return this.#queue.events;
  }

  /** False while no lane can commit. */
  get available(): boolean {
    return this.#lanes.some(({ up }) => up);
  }

  /** Settles all waiting requests with `unavailable`. */
  clear(): void {
    this.#queue.settleAll(unavailable);
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
    return this.#free.length > 0 && this.#queue.groups >= (this.#committing === 0 ? 1 : COMMIT_REQUESTS_MIN);
  }

  #commitNext(): void {
    if (!this.available) return this.clear();
    if (!this.#mayCommit) return;
    const index = this.#free.findIndex(({ up }) => up);
    if (index === -1) return;
    const [lane] = this.#free.splice(index, 1);
    const share = Math.ceil(this.#queue.groups / this.#lanes.length);
    void this.#commitOn(lane!, this.#queue.takeBatch(Math.max(COMMIT_REQUESTS_MIN, share)));
  }

  async #commitOn(lane: Lane<Row>, batch: Batch<Row>): Promise<void> {
    this.#committing++;
    const committing = this.#commit(lane, batch);
    if (batch.length >= BEGIN_AHEAD_REQUESTS) this.#free[0]?.begin();
    const outcome = await committing;
    this.#committing--;
    if (outcome.kind === 'committed') {
      this.#free.push(lane);
      this.#commitNext();
      // The next batch has been sent to Postgres when these answers are written.
      return settleStored(batch, outcome.eventIds);
    }
    // The other lane continues, because settling a failed batch on this one may take a while.
    this.#commitNext();
    await this.#settle(lane, batch, outcome);
    this.#free.push(lane);
    this.#commitNext();
  }

  async #commit(lane: Lane<Row>, batch: Readonly<Batch<Row>>): Promise<CommitOutcome> {
    const startedMs = performance.now();
    const rows = rowsOf(batch);
    const outcome = await lane.commit(rows);
    if (outcome.kind === 'committed') {
      const ms = performance.now() - startedMs;
      this.#queue.measure(rows.length, ms);
      const { eventIds } = outcome;
      const events = eventIds === undefined ? rows.length : rows.filter((row, i) => isOwn(row, eventIds[i]!)).length;
      const refused = eventIds?.filter((id) => id === null).length ?? 0;
      this.#observer.committed(events, ms, rows);
      if (events + refused < rows.length) this.#observer.repeated(rows.length - events - refused);
    }
    return outcome;
  }

  async #settle(lane: Lane<Row>, batch: Batch<Row>, outcome: CommitOutcome): Promise<void> {
    if (outcome.kind === 'committed') settleStored(batch, outcome.eventIds);
    else if (outcome.kind === 'refused') await this.#settleRefused(lane, batch, outcome);
    else if (outcome.lookUp === null) settleAll(batch, unavailable);
    else this.#settleInDoubt(batch, await outcome.lookUp());
  }

  /** One bad row fails the whole commit. Halves of the batch are retried until the request with the bad row is alone. */
  async #settleRefused(
    lane: Lane<Row>,
    batch: Batch<Row>,
    error: { sqlState: string; message: string },
  ): Promise<void> {
    const isFaultOfData = sqlStateKind(error.sqlState) === 'data';
    if (isFaultOfData && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      for (const half of [batch.slice(0, middle), batch.slice(middle)])
        await this.#settle(lane, half, await this.#commit(lane, half));
      return;
    }
    this.#observer.refused(rowsOf(batch), error.sqlState, error.message);
    settleAll(batch, isFaultOfData ? refused : unavailable);
  }

  /** Requests whose rows are all found are stored; senders of the others get 503 and retry. */
  #settleInDoubt(batch: Batch<Row>, found: readonly (string | null)[]): void {
    this.#observer.inDoubt(found.length, found.filter((id) => id !== null).length);
    let at = 0;
    for (const group of batch) {
      const { rows } = group;
      group.settle(storedAs(rows, found.slice(at, at + rows.length)));
      at += rows.length;
    }
  }
}

function rowsOf<Row>(batch: Readonly<Batch<Row>>): Row[] {
  const all: Row[] = [];
  for (const { rows } of batch) for (const row of rows) all.push(row);
  return all;
}

/** @param eventIds see CommitOutcome. */
function settleStored(batch: Readonly<Batch<EventRow>>, eventIds: readonly (string | null)[] | undefined): void {
  if (eventIds === undefined) return settleAll(batch, stored);
  let at = 0;
  for (const group of batch) {
    const { length } = group.rows;
    group.settle(storedAs(group.rows, eventIds.slice(at, at + length)));
    at += length;
  }
}

/** @param eventIds for each row, the id of the event that has its key; null: it is not stored, and the sender retries. */
function storedAs(rows: readonly EventRow[], eventIds: readonly (string | null)[]): StoreOutcome {
  const duplicates = new Map<number, string>();
  for (const [i, row] of rows.entries()) {
    const eventId = eventIds[i]!;
    if (eventId === null) return unavailable;
    if (!isOwn(row, eventId)) duplicates.set(i, eventId);
  }
  return duplicates.size === 0 ? stored : { kind: 'stored', duplicates };
}

function isOwn({ id }: EventRow, eventId: string | null): boolean {
  return uuidText(id) === eventId;
}
