/**
 * Step `commit` for webhooks with a dedupe_header. One statement commits an event together with its key (see store-deduped.ts).
 * Of any number of duplicates, in any number of processes, exactly one is stored. Requests without the header use EventWriter.
 */
import { createHash } from 'node:crypto';
import { setTimeout as delay } from 'node:timers/promises';
import { uuidText } from '../db/ids.ts';
import type { Database } from '../db/pool.ts';
import { findDeduped, type KeyedRow, storeDeduped } from '../db/queries/store-deduped.ts';
import { sqlStateKind } from '../db/sql-states.ts';
import type { Exchange } from '../http/exchange.ts';
import { CommitQueue, type QueueLimits, settleAll, type Waiting } from './commit-queue.ts';
import { type PersistObserver, type PersistOutcome, unavailable } from './persist.ts';
import type { Webhook } from './webhook.ts';

export type DedupeOutcome =
  /** For each row, the id of the event stored under its key: the row's own id, or the id of the first event with this key. */
  { kind: 'stored'; eventIds: readonly string[] } | Exclude<PersistOutcome, { kind: 'committed' }>;

export interface DedupeObserver extends Omit<PersistObserver, 'connection'> {
  /** Counts events that were not stored because their keys exist. */
  repeated(events: number): void;
}

interface DedupeOptions extends QueueLimits {
  database: Database;
  /** RETENTION_DAYS: a key expires with its event. */
  retentionDays: number;
  /** Last known state of the database connection; does not query. */
  available: () => boolean;
  observer: DedupeObserver;
}

type Batch = Waiting<KeyedRow, DedupeOutcome>[];

/** After a lost connection: how long the keys are looked up before the senders get 503, and how often. */
const IN_DOUBT_MS = 5_000;
const LOOK_EVERY_MS = 100;

/** Value of the webhook's dedupe_header; the first value if it was sent twice. Null if it is absent or empty. */
export function dedupeValue(exchange: Exchange, webhook: Webhook): string | null {
  return (webhook.dedupeHeader !== null && exchange.header(webhook.dedupeHeader)) || null;
}

/** Key of a value: its SHA-256, so that every key is 32 bytes. @param line number in a batch, from 1. */
export function dedupeKey(value: string, line?: number): Uint8Array {
  return createHash('sha256')
    .update(line === undefined ? value : `${value}#${line}`)
    .digest();
}

/** Group commit as in EventWriter, with one statement at a time. */
export class DedupeWriter {
  readonly #options: DedupeOptions;
  readonly #queue: CommitQueue<KeyedRow, DedupeOutcome>;
  #committing = false;
  #scheduled = false;
  #onCommitted: () => void = () => {};

  constructor(options: DedupeOptions) {
    this.#options = options;
    this.#queue = new CommitQueue(options);
  }

  /** Stores the events whose keys are new, in one commit. Never rejects. @param rows with distinct keys. */
  addAll(rows: readonly KeyedRow[]): Promise<DedupeOutcome> {
    if (!this.#options.available()) return Promise.resolve(unavailable);
    if (this.#queue.full) return Promise.resolve({ kind: 'queue_full', retryAfterSeconds: this.#queue.drainSeconds });
    const outcome = this.#queue.push(rows);
    this.#schedule();
    return outcome;
  }

  /** Events waiting for a commit. */
  get queued(): number {
    return this.#queue.events;
  }

  /** Sets the callback that runs after each commit, before the requests are answered. */
  onCommitted(callback: () => void): void {
    this.#onCommitted = callback;
  }

  /** Settles waiting events with `unavailable`. Drain first. */
  close(): void {
    this.#queue.settleAll(unavailable);
  }

  #schedule(): void {
    if (this.#scheduled || this.#committing) return;
    this.#scheduled = true;
    setImmediate(() => {
      this.#scheduled = false;
      void this.#commitNext();
    });
  }

  async #commitNext(): Promise<void> {
    while (!this.#committing && !this.#queue.empty) {
      this.#committing = true;
      await this.#store(this.#queue.takeBatch());
      this.#committing = false;
    }
  }

  async #store(batch: Batch): Promise<void> {
    const { database, retentionDays, observer } = this.#options;
    const { rows, places } = firstOfEachKey(batch);
    const startedMs = performance.now();
    try {
      const eventIds = await storeDeduped(database, rows, retentionDays);
      const ms = performance.now() - startedMs;
      const stored = rows.filter(({ id }, i) => uuidText(id) === eventIds[i]).length;
      const given = places.reduce((sum, group) => sum + group.length, 0);
      this.#queue.measure(given, ms);
      observer.committed(stored, ms);
      if (given > stored) observer.repeated(given - stored);
      if (stored > 0) this.#onCommitted();
      batch.forEach(({ settle }, i) => {
        settle({ kind: 'stored', eventIds: places[i]!.map((place) => eventIds[place]!) });
      });
    } catch (error) {
      await this.#settleFailed(batch, error as Error & { code?: string });
    }
  }

  async #settleFailed(batch: Batch, { code: sqlState = '', message }: Error & { code?: string }): Promise<void> {
    const kind = sqlStateKind(sqlState);
    // An error without SQLSTATE is a lost connection or a timeout.
    if (sqlState === '' || kind === 'session_ended') {
      // The database is down: answer the waiting requests immediately.
      if (!this.#options.available()) this.#queue.settleAll(unavailable);
      return this.#settleInDoubt(batch);
    }
    if (kind === 'data' && batch.length > 1) {
      const middle = Math.ceil(batch.length / 2);
      await this.#store(batch.slice(0, middle));
      return this.#store(batch.slice(middle));
    }
    this.#options.observer.refused(firstOfEachKey(batch).rows, sqlState, message);
    settleAll(batch, kind === 'data' ? { kind: 'refused' } : unavailable);
  }

  /** The result of the statement is unknown. A group is stored if all its keys exist, from this statement or an earlier one. */
  async #settleInDoubt(batch: Batch): Promise<void> {
    const { rows, places } = firstOfEachKey(batch);
    const eventIds = await this.#lookUp(rows);
    this.#options.observer.inDoubt(rows.length, eventIds.filter((id) => id !== null).length);
    batch.forEach(({ settle }, i) => {
      const found = places[i]!.map((place) => eventIds[place] ?? null);
      settle(found.includes(null) ? unavailable : { kind: 'stored', eventIds: found as string[] });
    });
  }

  async #lookUp(rows: readonly KeyedRow[]): Promise<(string | null)[]> {
    const endMs = performance.now() + IN_DOUBT_MS;
    while (performance.now() < endMs) {
      try {
        return await findDeduped(this.#options.database, rows);
      } catch {
        await delay(LOOK_EVERY_MS);
      }
    }
    return rows.map(() => null);
  }
}

/** Rows of the batch without duplicates: the first row of each key. `places` maps each row of each group to its index in `rows`. */
function firstOfEachKey(batch: Readonly<Batch>): { rows: KeyedRow[]; places: number[][] } {
  const rows: KeyedRow[] = [];
  const known = new Map<string, number>();
  const places = batch.map((waiting) =>
    waiting.rows.map((row) => {
      const name = `${uuidText(row.webhookId)}${Buffer.from(row.key).toString('latin1')}`;
      const place = known.get(name) ?? rows.push(row) - 1;
      known.set(name, place);
      return place;
    }),
  );
  return { rows, places };
}
