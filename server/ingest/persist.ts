/** Step `commit`: group commit. The next batch is collected while COPYs run. A request gets 202 only after its commit. */

import type { CopyOutcome } from '../db/copy.ts';
import { CopyLink } from '../db/copy-link.ts';
import { CopyEncoder, copyEventsSql, type EventRow } from '../db/copy-rows.ts';
import { uuidText } from '../db/ids.ts';
import { sqlStateKind } from '../db/sql-states.ts';
import { CommitQueue, type QueueLimits, settleAll, type Waiting } from './commit-queue.ts';

export type PersistOutcome =
  | { kind: 'committed' }
  /** The database refuses this row; a retry would fail as well. */
  | { kind: 'refused' }
  | { kind: 'queue_full'; retryAfterSeconds: number }
  | { kind: 'unavailable'; retryAfterSeconds: number };

export interface PersistObserver {
  /** A commit succeeded: its number of events and its duration. */
  committed(events: number, ms: number): void;
  /** Commits became possible or impossible. `reason` is the text from libpq. */
  connection(up: boolean, reason: string): void;
  /** The result of a commit of `events` events was lost; `found` of them are stored. */
  inDoubt(events: number, found: number): void;
  /** The server refused the rows of one batch. `rows` is empty for a trial commit. */
  refused(rows: readonly EventRow[], sqlState: string, message: string): void;
}

interface PersistOptions extends QueueLimits {
  conninfo: string;
  /** COMMIT_TIMEOUT_MS */
  commitTimeoutMs: number;
  observer: PersistObserver;
}

type Batch = Waiting<EventRow, PersistOutcome>[];

/** From this batch size in requests, another batch is likely to follow: its COPY is started in advance. */
const BEGIN_AHEAD_REQUESTS = 8;
/** From this number of requests, a second commit runs beside the first. Fewer waiting requests are not split. */
const COMMIT_REQUESTS_MIN = 64;
/** After a lost result: time limit of the lookup before the senders get 503. */
const IN_DOUBT_MS = 5_000;

export const unavailable = { kind: 'unavailable', retryAfterSeconds: 1 } as const satisfies PersistOutcome;

/** A COPY connection with its own encoder: both connections may send at once, so they cannot share a buffer. */
interface Lane {
  readonly link: CopyLink;
  readonly encoder: CopyEncoder;
  /** True while a batch is committed, or its lost result is looked up. */
  busy: boolean;
}

/**
 * Group commit over two COPY connections. If one commit took all waiting requests, all senders would move in step: the event
 * loop would be idle while Postgres works, and Postgres while the loop writes answers. Therefore a commit takes half of the
 * waiting requests. Both connections may commit at once; the second one commits only a batch of COMMIT_REQUESTS_MIN or more.
 * While one connection commits, the other has already started its COPY, so the next batch is sent whole before the answers
 * of the previous batch are written.
 *
 * Requests/s relative to commits that take all waiting requests, on the two connections in turn. Medians of 5 to 7 rounds,
 * each with new processes, on two cores shared by load generator, Postgres and Weir:
 *
 *     1 process, 256 connections       1.15 (quartiles 1.05 to 1.31)
 *     2 processes, 256 connections     1.05 (1.03 to 1.10)   the processes are out of step anyway
 *     1 process, 1,000 connections     0.97 (0.91 to 1.18)
 *
 * Committing on both connections as soon as any request waits gave 0.77: the commits are many and small.
 */
export class EventWriter {
  readonly #options: PersistOptions;
  /** In order of use: the first lane is next. */
  #lanes: [Lane, Lane];
  #toldAvailable: boolean | null = null;
  readonly #queue: CommitQueue<EventRow, PersistOutcome>;
  /** Running COPYs. */
  #copying = 0;
  #scheduled = false;
  #onCommitted: () => void = () => {};

  constructor(options: PersistOptions) {
    this.#options = options;
    this.#queue = new CommitQueue(options);
    const makeLane = () => ({
      link: new CopyLink(options.conninfo, (reason) => this.#onLinkChanged(reason)),
      encoder: new CopyEncoder(),
      busy: false,
    });
    this.#lanes = [makeLane(), makeLane()];
  }

  /** Connects; retries until it succeeds or `close` is called. Before that, `add` resolves with `unavailable`. */
  async start(): Promise<void> {
    await Promise.all(this.#lanes.map(({ link }) => link.start()));
  }

  /** Stores one event. Resolves after its commit, or with the reason why it was not stored. Never rejects. */
  add(row: EventRow): Promise<PersistOutcome> {
    return this.addAll([row]);
  }

  /** Stores events in one commit, all or none. Resolves as `add`. Never rejects. */
  addAll(rows: readonly EventRow[]): Promise<PersistOutcome> {
    if (!this.available) return Promise.resolve(unavailable);
    if (this.#queue.full) return Promise.resolve({ kind: 'queue_full', retryAfterSeconds: this.#queue.drainSeconds });
    const outcome = this.#queue.push(rows);
    this.#schedule();
    return outcome;
  }

  /** Sets the callback that runs after each commit, before the requests are answered. */
  onCommitted(callback: () => void): void {
    this.#onCommitted = callback;
  }

  /** Events waiting for a commit. */
  get queued(): number {
    return this.#queue.events;
  }

  /** False while no connection is up. Connections reconnect automatically. */
  get available(): boolean {
    return this.#lanes.some(({ link }) => link.up);
  }

  /** Closes the connections and settles waiting events with `unavailable`. Drain first. */
  close(): void {
    for (const { link } of this.#lanes) link.close();
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

  /** Whether enough requests wait: one while no COPY runs, otherwise COMMIT_REQUESTS_MIN. */
  get #mayCommit(): boolean {
    return this.#queue.groups >= (this.#copying === 0 ? 1 : COMMIT_REQUESTS_MIN);
  }

  #commitNext(): void {
    if (!this.#mayCommit) return;
    if (!this.available) return this.#queue.settleAll(unavailable);
    const lane = this.#lanes.find(({ link, busy }) => link.up && !busy);
    if (lane === undefined) return;
    const half = Math.ceil(this.#queue.groups / 2);
    void this.#commit(lane, this.#queue.takeBatch(Math.max(COMMIT_REQUESTS_MIN, half)));
  }

  async #commit(lane: Lane, batch: Batch): Promise<void> {
    const other = this.#lanes.find((each) => each !== lane)!;
    this.#lanes = [other, lane];
    lane.busy = true;
    this.#copying++;
    const copying = this.#copy(lane, batch);
    if (batch.length >= BEGIN_AHEAD_REQUESTS && !other.busy) other.link.begin(copyEventsSql);
    const outcome = await copying;
    this.#copying--;
    if (outcome.kind === 'committed') {
      lane.busy = false;
      this.#commitNext();
      // The answers are written when this turn's promises run; the next batch has been sent to Postgres by then.
      return settleAll(batch, { kind: 'committed' });
    }
    // The other connection continues, because settling a failed batch on this one may take a while.
    this.#commitNext();
    await this.#settle(lane, batch, outcome);
    lane.busy = false;
    this.#commitNext();
  }

  async #copy({ link, encoder }: Lane, batch: Readonly<Batch>): Promise<CopyOutcome> {
    const startedMs = performance.now();
    const rows = rowsOf(batch);
    const data = encoder.encode(rows);
    const outcome = await link.copyIn(copyEventsSql, data, this.#options.commitTimeoutMs);
    if (outcome.kind === 'committed') {
      const ms = performance.now() - startedMs;
      this.#queue.measure(rows.length, ms);
      this.#options.observer.committed(rows.length, ms);
      this.#onCommitted();
    }
    return outcome;
  }

  async #settle(lane: Lane, batch: Batch, outcome: CopyOutcome): Promise<void> {
    if (outcome.kind === 'committed') settleAll(batch, { kind: 'committed' });
    else if (outcome.kind === 'refused') await this.#settleRefused(lane, batch, outcome);
    else if (outcome.inDoubt) await this.#settleInDoubt(lane.link, batch);
    else settleAll(batch, unavailable);
  }

  /** One bad row fails the whole COPY. Halves of the batch are retried until the request with the bad row is alone. */
  async #settleRefused(lane: Lane, batch: Batch, error: { sqlState: string; message: string }): Promise<void> {
    const isFaultOfData = sqlStateKind(error.sqlState) === 'data';
    if (isFaultOfData && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      for (const half of [batch.slice(0, middle), batch.slice(middle)])
        await this.#settle(lane, half, await this.#copy(lane, half));
      return;
    }
    this.#options.observer.refused(rowsOf(batch), error.sqlState, error.message);
    settleAll(batch, isFaultOfData ? { kind: 'refused' } : unavailable);
  }

  /** The end of the COPY was sent but its result was lost. Visible rows are committed; senders of the others get 503 and retry. */
  async #settleInDoubt(link: CopyLink, batch: Batch): Promise<void> {
    const rows = rowsOf(batch);
    const at = (ms: number) => `'${new Date(ms).toISOString()}'`;
    const [first, last] = span(rows);
    const ids = rows.map((row) => `'${uuidText(row.id)}'`).join(',');
    const sql = `select id from events where received_at between ${at(first)} and ${at(last)} and id in (${ids})`;
    const stored = new Set(await link.column(sql, IN_DOUBT_MS).catch(() => []));
    this.#options.observer.inDoubt(rows.length, stored.size);
    const isStored = (row: EventRow) => stored.has(uuidText(row.id));
    for (const { rows, settle } of batch) settle(rows.every(isStored) ? { kind: 'committed' } : unavailable);
  }

  #onLinkChanged(reason: string): void {
    if (this.available === this.#toldAvailable) return;
    this.#toldAvailable = this.available;
    this.#options.observer.connection(this.available, reason);
  }
}

function rowsOf(batch: Readonly<Batch>): EventRow[] {
  const all: EventRow[] = [];
  for (const { rows } of batch) for (const row of rows) all.push(row);
  return all;
}

/** Smallest and largest `received_at`, in Unix milliseconds. */
function span(rows: readonly EventRow[]): [number, number] {
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const { receivedAtMs } of rows) {
    first = Math.min(first, receivedAtMs);
    last = Math.max(last, receivedAtMs);
  }
  return [first, last];
}
