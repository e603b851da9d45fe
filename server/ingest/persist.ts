/** Step `commit`: group commit. While COPYs are under way the next batch gathers; 202 comes only after its commit. */

import type { CopyOutcome } from '../db/copy.ts';
import { CopyLink } from '../db/copy-link.ts';
import { CopyEncoder, copyEventsSql, type EventRow } from '../db/copy-rows.ts';
import { uuidText } from '../db/ids.ts';
import { sqlStateKind } from '../db/sql-states.ts';
import { CommitQueue, type QueueLimits, settleAll, type Waiting } from './commit-queue.ts';

export type PersistOutcome =
  | { kind: 'committed' }
  /** The database refuses this row and would refuse it again. */
  | { kind: 'refused' }
  | { kind: 'queue_full'; retryAfterSeconds: number }
  | { kind: 'unavailable'; retryAfterSeconds: number };

export interface PersistObserver {
  /** A commit that ended well: its events and how long it took. */
  committed(events: number, ms: number): void;
  /** Commits are possible (again), or not any more, with libpq's reason. */
  connection(up: boolean, reason: string): void;
  /** The end of a commit was not heard; so many of its events were found stored. */
  inDoubt(events: number, found: number): void;
  /** The server refused the rows of one batch, told with its SQLSTATE; none: a trial commit. */
  refused(rows: readonly EventRow[], sqlState: string, message: string): void;
}

interface PersistOptions extends QueueLimits {
  conninfo: string;
  /** COMMIT_TIMEOUT_MS */
  commitTimeoutMs: number;
  observer: PersistObserver;
}

type Batch = Waiting<EventRow, PersistOutcome>[];

/** A batch of so many requests says that another one follows: its COPY is begun ahead. */
const BEGIN_AHEAD_REQUESTS = 8;
/** So many requests are worth a commit beside the one under way, and are not divided. */
const COMMIT_REQUESTS_MIN = 64;
/** How long the fate of a commit is looked up before its senders are told to repeat. */
const IN_DOUBT_MS = 5_000;

export const unavailable = { kind: 'unavailable', retryAfterSeconds: 1 } as const satisfies PersistOutcome;

/** A COPY connection and what it takes to use it; its buffer is not another's, since both may be sending. */
interface Lane {
  readonly link: CopyLink;
  readonly encoder: CopyEncoder;
  /** A batch is being committed, or its fate looked up. */
  busy: boolean;
}

/**
 * Two COPY connections. Senders that wait for their answers all move in step when one commit takes everything that is there:
 * the event loop rests while Postgres works, and Postgres while the loop writes answers. So a commit takes half of what
 * waits, and both connections may commit at once, the second one only for a batch that is worth it. Where one commits, the
 * other has its COPY begun already, so that the next batch goes out whole before the answers of the last one are written.
 *
 * Requests/s over those of commits that take all that waits, on one connection after the other; medians of 5 to 7 rounds,
 * each with new processes, on two cores that load generator, Postgres and Weir share:
 *
 *     1 process, 256 connections       1.15 (quartiles 1.05 to 1.31)
 *     2 processes, 256 connections     1.05 (1.03 to 1.10)   they are out of step anyway
 *     1 process, 1,000 connections     0.97 (0.91 to 1.18)
 *
 * Commits on both as soon as anything waits were 0.77: they are many, and small.
 */
export class EventWriter {
  readonly #options: PersistOptions;
  /** They take turns: the first one is next. */
  #lanes: [Lane, Lane];
  #toldAvailable: boolean | null = null;
  readonly #queue: CommitQueue<EventRow, PersistOutcome>;
  /** COPYs under way. */
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

  /** Connects, again and again until it works or `close` is called. Adding before that is answered `unavailable`. */
  async start(): Promise<void> {
    await Promise.all(this.#lanes.map(({ link }) => link.start()));
  }

  /** Stores one event; resolves after its commit, or with the reason why it is not stored. Never rejects. */
  add(row: EventRow): Promise<PersistOutcome> {
    return this.addAll([row]);
  }

  /** Stores events in one commit, all or none. Never rejects. */
  addAll(rows: readonly EventRow[]): Promise<PersistOutcome> {
    if (!this.available) return Promise.resolve(unavailable);
    if (this.#queue.full) return Promise.resolve({ kind: 'queue_full', retryAfterSeconds: this.#queue.drainSeconds });
    const outcome = this.#queue.push(rows);
    this.#schedule();
    return outcome;
  }

  /** Calls back after each commit, before its answers. */
  onCommitted(callback: () => void): void {
    this.#onCommitted = callback;
  }

  /** Events that wait for their commit. */
  get queued(): number {
    return this.#queue.events;
  }

  /** False while no connection is up; they come back by themselves. */
  get available(): boolean {
    return this.#lanes.some(({ link }) => link.up);
  }

  /** Ends the connections; what waits is answered `unavailable`. Drain first. */
  close(): void {
    for (const { link } of this.#lanes) link.close();
    this.#queue.settleAll(unavailable);
  }

  /** Once a turn: everything that this turn verified is in the queue by then. */
  #schedule(): void {
    if (this.#scheduled || !this.#mayCommit) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#commitNext();
    });
  }

  /** True when the queue holds enough: anything while no COPY is under way, else what is worth one of its own. */
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
      // The answers are written when this turn's promises run: by then the next batch is on its way to Postgres.
      return settleAll(batch, { kind: 'committed' });
    }
    // The other connection goes on meanwhile: to find out why may take this one a while.
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

  /** One bad row fails the whole COPY for everybody in it: halves are tried until the culprit's request stands alone. */
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

  /** The end was sent and no answer heard: a row that can be seen is committed, the others' senders repeat. */
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

/** First and last millisecond of `received_at`. */
function span(rows: readonly EventRow[]): [number, number] {
  let first = Number.POSITIVE_INFINITY;
  let last = Number.NEGATIVE_INFINITY;
  for (const { receivedAtMs } of rows) {
    first = Math.min(first, receivedAtMs);
    last = Math.max(last, receivedAtMs);
  }
  return [first, last];
}
