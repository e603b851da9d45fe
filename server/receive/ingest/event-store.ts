/** Stores the events of verified requests in one database: by COPY, or by a statement those with deduplication keys. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../../store/connect/pool.ts';
import { sqlStateKind } from '../../store/connect/sql-states.ts';
import { COPY_CONNECTIONS } from '../../store/copy/connection.ts';
import type { EventRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';
import { findDeduped, type KeyedRow, storeDeduped } from '../../store/queries/events/store-deduped.ts';
import type { QueuedGroup, QueueLimits } from './commit-queue.ts';
import { CopyLane, type CopyOptions, IN_DOUBT_MS } from './copy-lane.ts';
import { type CommitObserver, type CommitOutcome, GroupCommit, type Lane, type StoreOutcome } from './group-commit.ts';

/**
 * The events of one request: either each has its own deduplication key, or none has a key. `settle` is called once: after their commit,
 * or with the reason why they were not stored.
 */
export type EventGroup = QueuedGroup<EventRow, StoreOutcome> & {
  /** The cell of its webhook. */
  readonly cell: number;
};

export interface StoreObserver extends CommitObserver {
  /** Commits became possible or impossible. `reason` is the text from libpq. */
  connection(up: boolean, reason: string): void;
}

interface StoreOptions extends QueueLimits, CopyOptions, StatementOptions {
  observer: StoreObserver;
}

export class EventStore {
  readonly #copies: readonly CopyLane[];
  readonly #unkeyed: GroupCommit<EventRow>;
  readonly #keyed: GroupCommit<KeyedRow>;

  constructor(options: StoreOptions) {
    const { observer, spools = false } = options;
    let reportedUp: boolean | null = null;
    const onChange = (reason: string) => {
      if (this.available === reportedUp) return;
      reportedUp = this.available;
      observer.connection(reportedUp, reason);
      // Without this, events with keys would wait for the statement in progress.
      if (spools && !reportedUp) this.#keyed.clear();
    };
    this.#copies = Array.from({ length: COPY_CONNECTIONS }, () => new CopyLane(options, onChange));
    this.#unkeyed = new GroupCommit(this.#copies, options, observer);
    const statement = new KeyedLane(options, () => this.available);
    this.#keyed = new GroupCommit([statement], options, observer);
  }

  /** Connects; retries until it succeeds or `close` is called. Before that, `store` settles with `unavailable`. */
  async start(): Promise<void> {
    await Promise.all(this.#copies.map((lane) => lane.start()));
  }

  /**
   * Stores the events of a request in one commit, all or none, and settles the group. An event whose key exists is not stored again: of
   * any number of events with one key, in any number of processes, exactly one is stored.
   */
  store(group: QueuedGroup<EventRow, StoreOutcome>): void {
    if (group.rows[0]!.key === null) this.#unkeyed.add(group);
    else this.#keyed.add(group as QueuedGroup<KeyedRow, StoreOutcome>);
  }

  /** Events waiting for a commit. */
  get queued(): number {
    return this.#unkeyed.queued + this.#keyed.queued;
  }

  /** Events in the longer queue; each is limited by QUEUE_EVENTS_MAX. */
  get longestQueue(): number {
    return Math.max(this.#unkeyed.queued, this.#keyed.queued);
  }

  /** False while no COPY connection is up. Connections reconnect automatically. */
  get available(): boolean {
    return this.#copies.some(({ up }) => up);
  }

  /** Closes the connections and settles waiting events with `unavailable`. Drain first. */
  close(): void {
    for (const lane of this.#copies) lane.close();
    this.#unkeyed.clear();
    this.#keyed.clear();
  }
}

interface StatementOptions {
  database: Database;
  /** Number of the cell; absent: home. */
  cell?: number;
  /** RETENTION_DAYS: a key expires with its event. */
  retentionDays: number;
}

/** Interval of the look-ups of keys after a lost result. */
const LOOK_UP_EVERY_MS = 100;

/** One statement commits the events together with their keys (see queries/events/store-deduped.ts). */
class KeyedLane implements Lane<KeyedRow> {
  readonly #options: StoreOptions;
  readonly #isUp: () => boolean;
  /** A statement exceeded the time limit and has not ended. */
  #timedOut = false;

  /** @param isUp last known state of the database; does not query. */
  constructor(options: StoreOptions, isUp: () => boolean) {
    this.#options = options;
    this.#isUp = isUp;
  }

  get up(): boolean {
    return this.#isUp() && !this.#timedOut;
  }

  begin(): void {}

  async commit(rows: readonly KeyedRow[]): Promise<CommitOutcome> {
    const storing = this.#store(rows);
    if (!this.#options.spools) return storing;
    const abort = new AbortController();
    const late = delay(this.#options.commitTimeoutMs, null, { signal: abort.signal, ref: false }).then(
      () => {
        this.#timedOut = true;
        return { kind: 'lost' as const, lookUp: null };
      },
      () => storing,
    );
    const stored = storing.finally(() => {
      this.#timedOut = false;
      abort.abort();
    });
    return Promise.race([stored, late]);
  }

  async #store(rows: readonly KeyedRow[]): Promise<CommitOutcome> {
    const { distinct, indexes } = firstOfEachKey(rows);
    const { database, retentionDays, cell } = this.#options;
    try {
      const eventIds = await storeDeduped(database, distinct, retentionDays, cell);
      return { kind: 'committed', eventIds: indexes.map((index) => eventIds[index]!) };
    } catch (error) {
      const { code: sqlState = '', message } = error as Error & { code?: string };
      // An error without SQLSTATE is a lost connection or a timeout.
      if (sqlState === '' || sqlStateKind(sqlState) === 'session_ended')
        return { kind: 'lost', lookUp: this.#options.spools ? null : () => this.#lookUp(rows) };
      return { kind: 'refused', sqlState, message };
    }
  }

  /** A row is stored if its key exists, from this statement or an earlier one. */
  async #lookUp(rows: readonly KeyedRow[]): Promise<(string | null)[]> {
    const endMs = performance.now() + IN_DOUBT_MS;
    while (performance.now() < endMs) {
      try {
        return await findDeduped(this.#options.database, rows);
      } catch {
        await delay(LOOK_UP_EVERY_MS);
      }
    }
    return rows.map(() => null);
  }
}

/** The first row of each key, and for each row the index of its key there. */
function firstOfEachKey(rows: readonly KeyedRow[]): { distinct: KeyedRow[]; indexes: number[] } {
  const distinct: KeyedRow[] = [];
  const known = new Map<string, number>();
  const indexes = rows.map((row) => {
    const name = `${uuidText(row.webhookId)}${Buffer.from(row.key).toString('latin1')}`;
    const index = known.get(name) ?? distinct.push(row) - 1;
    known.set(name, index);
    return index;
  });
  return { distinct, indexes };
}
