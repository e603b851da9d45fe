/** Step `persist`: group commit. While one COPY is under way the next batch gathers; 202 comes only after its commit. */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../core/backoff.ts';
import { CopyEncoder, copyEventsSql, type EventRow } from '../core/copy-rows.ts';
import { uuidText } from '../core/ids.ts';
import { CopyConnection } from '../db/copy.ts';

export type PersistOutcome =
  | { kind: 'committed' }
  /** The database refuses this row and would refuse it again. */
  | { kind: 'refused' }
  | { kind: 'queue_full'; retryAfterSeconds: number }
  | { kind: 'unavailable'; retryAfterSeconds: number };

export interface PersistObserver {
  /** A commit that ended well: its events and how long it took. */
  committed(events: number, ms: number): void;
  /** The COPY connection came up or went away, with libpq's reason. */
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

/** Bodies in one commit; a single larger body goes alone. */
const COMMIT_BYTES_MAX = 8_388_608;
const RECONNECT = { firstMs: 100, maxMs: 5_000 };
/** How long the fate of a commit is looked up before its senders are told to repeat. */
const IN_DOUBT_MS = 5_000;
/** Weight of the newest commit in the running mean of events a second. */
const RATE_WEIGHT = 0.2;

export class EventWriter {
  readonly #options: PersistOptions;
  readonly #encoder = new CopyEncoder();
  #queue: Waiting[] = [];
  #connection: CopyConnection | null = null;
  #connecting: Promise<void> | null = null;
  #busy = false;
  #stopped = false;
  #eventsPerSecond = 0;

  constructor(options: PersistOptions) {
    this.#options = options;
  }

  /** Connects, again and again until it works or `close` is called. Adding before that is answered `unavailable`. */
  start(): Promise<void> {
    if (this.available || this.#stopped) return Promise.resolve();
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  /** Stores one event; resolves after its commit, or with the reason why it is not stored. Never rejects. */
  add(row: EventRow): Promise<PersistOutcome> {
    if (!this.available) return Promise.resolve({ kind: 'unavailable', retryAfterSeconds: 1 });
    if (this.#queue.length >= this.#options.queueEventsMax)
      return Promise.resolve({ kind: 'queue_full', retryAfterSeconds: this.#drainSeconds() });
    return new Promise((settle) => {
      this.#queue.push({ row, settle });
      if (this.#busy) return;
      this.#busy = true;
      setImmediate(() => void this.#run());
    });
  }

  /** Events that wait for their commit. */
  get queued(): number {
    return this.#queue.length;
  }

  get available(): boolean {
    return this.#connection !== null && !this.#connection.closed;
  }

  /** Ends the connection; what waits is answered `unavailable`. Drain first. */
  close(): void {
    this.#stopped = true;
    this.#connection?.close();
  }

  async #run(): Promise<void> {
    while (this.#queue.length > 0) {
      const connection = this.#connection;
      if (connection === null) {
        settleAll(this.#queue.splice(0), { kind: 'unavailable', retryAfterSeconds: 1 });
        break;
      }
      await this.#commit(connection, this.#takeBatch());
    }
    this.#busy = false;
  }

  #takeBatch(): Waiting[] {
    let events = 0;
    let bytes = 0;
    while (
      events < this.#queue.length &&
      events < this.#options.commitEventsMax &&
      (events === 0 || bytes < COMMIT_BYTES_MAX)
    )
      bytes += this.#queue[events++]!.row.body.length;
    return this.#queue.splice(0, events);
  }

  async #commit(connection: CopyConnection, batch: Waiting[]): Promise<void> {
    const startedMs = performance.now();
    const timer = setTimeout(() => connection.close(), this.#options.commitTimeoutMs);
    const outcome = await connection.copyIn(copyEventsSql, this.#encoder.encode(batch.map(({ row }) => row)));
    clearTimeout(timer);
    if (outcome.kind === 'committed') {
      const ms = performance.now() - startedMs;
      this.#measure(batch.length, ms);
      this.#options.observer.committed(batch.length, ms);
      settleAll(batch, { kind: 'committed' });
    } else if (outcome.kind === 'lost') await this.#onLost(batch, outcome);
    else await this.#onRefused(connection, batch, outcome);
  }

  /** One bad row fails the whole COPY for everybody in it: halves are tried until the culprit stands alone. */
  async #onRefused(
    connection: CopyConnection,
    batch: Waiting[],
    { sqlState, message }: { sqlState: string; message: string },
  ) {
    if (!isFaultOfData(sqlState)) {
      this.#options.observer.refused(batch.length, sqlState, message);
      return settleAll(batch, { kind: 'unavailable', retryAfterSeconds: 1 });
    }
    if (batch.length === 1) {
      this.#options.observer.refused(1, sqlState, message);
      return settleAll(batch, { kind: 'refused' });
    }
    const half = Math.ceil(batch.length / 2);
    await this.#commit(connection, batch.slice(0, half));
    await this.#commit(connection, batch.slice(half));
  }

  async #onLost(batch: Waiting[], { inDoubt }: { inDoubt: boolean }): Promise<void> {
    if (!inDoubt) return settleAll(batch, { kind: 'unavailable', retryAfterSeconds: 1 });
    const stored = await this.#lookUp(batch);
    this.#options.observer.inDoubt(batch.length, stored.size);
    for (const waiting of batch)
      waiting.settle(
        stored.has(uuidText(waiting.row.id)) ? { kind: 'committed' } : { kind: 'unavailable', retryAfterSeconds: 1 },
      );
  }

  /** Ids of the batch that are stored; a row that can be seen is committed. Empty when nobody could be asked in time. */
  async #lookUp(batch: Waiting[]): Promise<Set<string>> {
    await Promise.race([this.start(), delay(IN_DOUBT_MS)]);
    const connection = this.#connection;
    if (connection === null) return new Set();
    const times = batch.map(({ row }) => row.receivedAtMs);
    const at = (ms: number) => `'${new Date(ms).toISOString()}'`;
    const ids = batch.map(({ row }) => `'${uuidText(row.id)}'`).join(',');
    const timer = setTimeout(() => connection.close(), IN_DOUBT_MS);
    try {
      return new Set(
        await connection.column(
          `select id from events where received_at between ${at(Math.min(...times))} and ${at(Math.max(...times))} and id in (${ids})`,
        ),
      );
    } catch {
      return new Set();
    } finally {
      clearTimeout(timer);
    }
  }

  async #connect(): Promise<void> {
    for (let attempt = 0; !this.#stopped; attempt++) {
      try {
        const connection = await CopyConnection.connect(this.#options.conninfo, (reason) => this.#onClosed(reason));
        this.#connection = connection;
        if (this.#stopped) return connection.close();
        this.#options.observer.connection(true, '');
        return;
      } catch (error) {
        if (attempt === 0) this.#options.observer.connection(false, (error as Error).message.trim());
        await delay(backoffMs(attempt, RECONNECT, Math.random()));
      }
    }
  }

  #onClosed(reason: string): void {
    this.#connection = null;
    if (this.#stopped) return;
    this.#options.observer.connection(false, reason);
    void this.start();
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

function settleAll(batch: Waiting[], outcome: PersistOutcome): void {
  for (const { settle } of batch) settle(outcome);
}

/**
 * Classes 22 (data) and 23 (integrity), less the missing partition: that one is ours, and the primary is about to make it.
 * A duplicate key would be ours as well, but repeating would not help.
 */
function isFaultOfData(sqlState: string): boolean {
  return /^2[23]/.test(sqlState) && sqlState !== '23514';
}
