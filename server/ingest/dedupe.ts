/**
 * Step `commit` for webhooks with a dedupe_header: the key of an event is committed with it, by one statement (see
 * store-deduped.ts), so that of any number of repeats, at any number of processes, one is stored. Requests without the header go
 * by EventWriter.
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
  /** For each row the id of the event that its key stands for: its own, or that of the first one with this key. */
  { kind: 'stored'; eventIds: readonly string[] } | Exclude<PersistOutcome, { kind: 'committed' }>;

export interface DedupeObserver extends Omit<PersistObserver, 'connection'> {
  /** Events that were not stored, since their keys were known. */
  repeated(events: number): void;
}

interface DedupeOptions extends QueueLimits {
  database: Database;
  /** RETENTION_DAYS: a key is forgotten with its event. */
  retentionDays: number;
  /** Whether the database can be reached, as far as is known without asking. */
  available: () => boolean;
  observer: DedupeObserver;
}

type Batch = Waiting<KeyedRow, DedupeOutcome>[];

/** How long the fate of a statement is looked up before its senders are told to repeat, and how often. */
const IN_DOUBT_MS = 5_000;
const LOOK_EVERY_MS = 100;

/** Value of the webhook's dedupe_header, the first when it was sent twice; null without it. An empty one tells nothing apart. */
export function dedupeValue(exchange: Exchange, webhook: Webhook): string | null {
  return (webhook.dedupeHeader !== null && exchange.header(webhook.dedupeHeader)) || null;
}

/** What a value is known by, whatever its length: SHA-256. @param line of a batch, from 1. */
export function dedupeKey(value: string, line?: number): Uint8Array {
  return createHash('sha256')
    .update(line === undefined ? value : `${value}#${line}`)
    .digest();
}

/** Group commit by one statement at a time, like EventWriter's. */
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

  /** Stores in one commit those of the events whose keys are new. Never rejects. @param rows of different keys. */
  addAll(rows: readonly KeyedRow[]): Promise<DedupeOutcome> {
    if (!this.#options.available()) return Promise.resolve(unavailable);
    if (this.#queue.full) return Promise.resolve({ kind: 'queue_full', retryAfterSeconds: this.#queue.drainSeconds });
    const outcome = this.#queue.push(rows);
    this.#schedule();
    return outcome;
  }

  /** Events that wait for their commit. */
  get queued(): number {
    return this.#queue.events;
  }

  /** Calls back after each commit, before its answers. */
  onCommitted(callback: () => void): void {
    this.#onCommitted = callback;
  }

  /** What waits is answered `unavailable`. Drain first. */
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
    // Without a code the connection broke, or nothing was heard in time.
    if (sqlState === '' || kind === 'session_ended') {
      // Whoever waits for a database that is gone is told at once.
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

  /** The answer was not heard: a group whose keys all stand for events is stored, by this statement or an earlier one. */
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

/** Rows of the batch without repeats: of a key that comes twice the first. `places` says where each row of each group went. */
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
