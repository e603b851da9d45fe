/** Step `persist`: group commit. While COPYs are under way the next batch gathers; 202 comes only after its commit. */
import { CopyEncoder, copyEventsSql, type EventRow } from '../core/copy-rows.ts';
import { uuidText } from '../core/ids.ts';
import type { CopyOutcome } from '../db/copy.ts';
import { CopyLink } from '../db/copy-link.ts';

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
  /** The server refused data; `events` of one batch, told with its SQLSTATE. */
  refused(events: number, sqlState: string, message: string): void;
}

export interface PersistOptions {
  conninfo: string;
  /** QUEUE_EVENTS_MAX, COMMIT_EVENTS_MAX, COMMIT_TIMEOUT_MS */
  queueEventsMax: number;
  commitEventsMax: number;
  commitTimeoutMs: number;
  observer: PersistObserver;
}

interface Waiting {
  row: EventRow;
  settle: (outcome: PersistOutcome) => void;
}

/** A batch of so many says that another one follows: its COPY is begun ahead. */
const BEGIN_AHEAD_EVENTS = 8;
/** Bodies in one commit; a single larger body goes alone. */
const COMMIT_BYTES_MAX = 8_388_608;
/** How long the fate of a commit is looked up before its senders are told to repeat. */
const IN_DOUBT_MS = 5_000;
/** Weight of the newest commit in the running mean of events a second. */
const RATE_WEIGHT = 0.2;

const unavailable: PersistOutcome = { kind: 'unavailable', retryAfterSeconds: 1 };

/**
 * Two COPY connections that take turns: while one commits, the other has its COPY begun already, so that the next batch goes
 * out whole before the answers of the last one are written. That is 1.08 of the requests/s of one connection (8 rounds,
 * two cores). Commits at the same time on both were tried too: 0.77, since they are more, and smaller.
 */
export class EventWriter {
  readonly #options: PersistOptions;
  readonly #encoder = new CopyEncoder();
  /** They take turns: the first one is next. */
  #links: [CopyLink, CopyLink];
  #toldAvailable: boolean | null = null;
  #queue: Waiting[] = [];
  #committing = false;
  #scheduled = false;
  #eventsPerSecond = 0;
  #onCommitted: () => void = () => {};

  constructor(options: PersistOptions) {
    this.#options = options;
    const makeLink = () => new CopyLink(options.conninfo, (reason) => this.#onLinkChanged(reason));
    this.#links = [makeLink(), makeLink()];
  }

  /** Connects, again and again until it works or `close` is called. Adding before that is answered `unavailable`. */
  async start(): Promise<void> {
    await Promise.all(this.#links.map((link) => link.start()));
  }

  /** Stores one event; resolves after its commit, or with the reason why it is not stored. Never rejects. */
  add(row: EventRow): Promise<PersistOutcome> {
    if (!this.available) return Promise.resolve(unavailable);
    if (this.#queue.length >= this.#options.queueEventsMax)
      return Promise.resolve({ kind: 'queue_full', retryAfterSeconds: this.#drainSeconds() });
    return new Promise((settle) => {
      this.#queue.push({ row, settle });
      this.#schedule();
    });
  }

  /** Calls back after each commit, before its answers. */
  onCommitted(callback: () => void): void {
    this.#onCommitted = callback;
  }

  /** Events that wait for their commit. */
  get queued(): number {
    return this.#queue.length;
  }

  /** False while no connection is up; they come back by themselves. */
  get available(): boolean {
    return this.#links.some((link) => link.up);
  }

  /** Ends the connections; what waits is answered `unavailable`. Drain first. */
  close(): void {
    for (const link of this.#links) link.close();
    settleAll(this.#queue.splice(0), unavailable);
  }

  /** Once a turn: everything that this turn verified is in the queue by then. */
  #schedule(): void {
    if (this.#scheduled || this.#committing) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      this.#commitNext();
    });
  }

  #commitNext(): void {
    if (this.#committing || this.#queue.length === 0) return;
    if (this.available) void this.#commit(this.#takeBatch());
    else settleAll(this.#queue.splice(0), unavailable);
  }

  #takeBatch(): Waiting[] {
    const { commitEventsMax } = this.#options;
    let events = 0;
    let bytes = 0;
    while (events < this.#queue.length && events < commitEventsMax && (events === 0 || bytes < COMMIT_BYTES_MAX))
      bytes += this.#queue[events++]!.row.body.length;
    return this.#queue.splice(0, events);
  }

  async #commit(batch: Waiting[]): Promise<void> {
    this.#committing = true;
    const [first, second] = this.#links;
    const [link, other] = first.up ? [first, second] : [second, first];
    this.#links = [other, link];
    const copying = this.#copy(link, batch);
    if (batch.length >= BEGIN_AHEAD_EVENTS) other.begin(copyEventsSql);
    const outcome = await copying;
    // What is not committed may need the connection to find out why; the next batch waits for that.
    if (outcome.kind !== 'committed') await this.#settle(link, batch, outcome);
    this.#committing = false;
    this.#commitNext();
    // The answers are written when this turn's promises run: by then the next batch is on its way to Postgres.
    if (outcome.kind === 'committed') await this.#settle(link, batch, outcome);
  }

  async #copy(link: CopyLink, batch: readonly Waiting[]): Promise<CopyOutcome> {
    const startedMs = performance.now();
    const data = this.#encoder.encode(batch.map(({ row }) => row));
    const outcome = await link.copyIn(copyEventsSql, data, this.#options.commitTimeoutMs);
    if (outcome.kind === 'committed') {
      const ms = performance.now() - startedMs;
      this.#measure(batch.length, ms);
      this.#options.observer.committed(batch.length, ms);
      this.#onCommitted();
    }
    return outcome;
  }

  async #settle(link: CopyLink, batch: Waiting[], outcome: CopyOutcome): Promise<void> {
    if (outcome.kind === 'committed') settleAll(batch, { kind: 'committed' });
    else if (outcome.kind === 'refused') await this.#settleRefused(link, batch, outcome);
    else {
      // Whoever waits for a connection that is gone is told at once.
      settleAll(this.#queue.splice(0), unavailable);
      if (outcome.inDoubt) await this.#settleInDoubt(link, batch);
      else settleAll(batch, unavailable);
    }
  }

  /** One bad row fails the whole COPY for everybody in it: halves are tried until the culprit stands alone. */
  async #settleRefused(link: CopyLink, batch: Waiting[], error: { sqlState: string; message: string }): Promise<void> {
    if (isFaultOfData(error.sqlState) && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      for (const half of [batch.slice(0, middle), batch.slice(middle)])
        await this.#settle(link, half, await this.#copy(link, half));
      return;
    }
    this.#options.observer.refused(batch.length, error.sqlState, error.message);
    settleAll(batch, isFaultOfData(error.sqlState) ? { kind: 'refused' } : unavailable);
  }

  /** The end was sent and no answer heard: a row that can be seen is committed, the others' senders repeat. */
  async #settleInDoubt(link: CopyLink, batch: Waiting[]): Promise<void> {
    const times = batch.map(({ row }) => row.receivedAtMs);
    const at = (ms: number) => `'${new Date(ms).toISOString()}'`;
    const ids = batch.map(({ row }) => `'${uuidText(row.id)}'`).join(',');
    const sql = `select id from events where received_at between ${at(Math.min(...times))} and ${at(Math.max(...times))} and id in (${ids})`;
    const stored = new Set(await link.column(sql, IN_DOUBT_MS).catch(() => []));
    this.#options.observer.inDoubt(batch.length, stored.size);
    for (const { row, settle } of batch) settle(stored.has(uuidText(row.id)) ? { kind: 'committed' } : unavailable);
  }

  #onLinkChanged(reason: string): void {
    if (this.available === this.#toldAvailable) return;
    this.#toldAvailable = this.available;
    this.#options.observer.connection(this.available, reason);
  }

  #measure(events: number, ms: number): void {
    const rate = (events * 1000) / Math.max(ms, 0.1);
    this.#eventsPerSecond += RATE_WEIGHT * (rate - this.#eventsPerSecond);
  }

  /** When the queue of now will be committed, at the pace of the last commits. */
  #drainSeconds(): number {
    return Math.max(1, Math.ceil(this.#queue.length / Math.max(1, this.#eventsPerSecond)));
  }
}

function settleAll(batch: readonly Waiting[], outcome: PersistOutcome): void {
  for (const { settle } of batch) settle(outcome);
}

/**
 * Classes 22 (data) and 23 (integrity), less the missing partition: that one is ours, and the primary is about to make it.
 * A duplicate key would be ours as well, but repeating would not help.
 */
function isFaultOfData(sqlState: string): boolean {
  return /^2[23]/.test(sqlState) && sqlState !== '23514';
}
