/** The ways to commit a batch: COPY for events without deduplication keys, one statement for those with keys. */
import { setTimeout as delay } from 'node:timers/promises';
import type { Database } from '../../store/connect/pool.ts';
import { sqlStateKind } from '../../store/connect/sql-states.ts';
import type { CopyLink } from '../../store/copy/link.ts';
import { CopyEncoder, copyEventsSql, type EventRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';
import { findDeduped, type KeyedRow, storeDeduped } from '../../store/queries/events/store-deduped.ts';
import type { CommitOutcome, Lane } from './group-commit.ts';

export interface LaneOptions {
  /** COMMIT_TIMEOUT_MS, of a COPY. */
  commitTimeoutMs: number;
  /** For events with keys. */
  database: Database;
  /** Number of the cell; absent: home. */
  cell?: number;
  /** The COPY of events; absent: into `events`. */
  copySql?: string | undefined;
  /** RETENTION_DAYS: a key expires with its event. */
  retentionDays: number;
  /** What is not committed is spooled (see spooled-store.ts): an outcome in doubt needs no look-up. */
  spools?: boolean;
}

/** After a lost result: time limit of the look-up, after which senders get 503, and interval of the look-ups of keys. */
const IN_DOUBT_MS = 5_000;
const LOOK_UP_EVERY_MS = 100;

/** A COPY connection with its own encoder: both connections may send at once, so they cannot share a buffer. */
export class CopyLane implements Lane<EventRow> {
  readonly #link: CopyLink;
  readonly #timeoutMs: number;
  readonly #spools: boolean;
  readonly #sql: string;
  readonly #encoder = new CopyEncoder();

  constructor(link: CopyLink, { commitTimeoutMs, spools = false, copySql = copyEventsSql }: LaneOptions) {
    this.#link = link;
    this.#sql = copySql;
    this.#timeoutMs = commitTimeoutMs;
    this.#spools = spools;
  }

  get up(): boolean {
    return this.#link.up;
  }

  begin(): void {
    this.#link.begin(this.#sql);
  }

  async commit(rows: readonly EventRow[]): Promise<CommitOutcome> {
    const outcome = await this.#link.copyIn(this.#sql, this.#encoder.encode(rows), this.#timeoutMs);
    if (outcome.kind !== 'lost') return outcome;
    return { kind: 'lost', lookUp: outcome.inDoubt && !this.#spools ? () => this.#lookUp(rows) : null };
  }

  /**
   * The transaction id makes the query wait until a synchronous standby has its commit, and thereby the rows before it: after a crash,
   * Postgres shows rows at once that no standby has (see find-deduped as well).
   */
  async #lookUp(rows: readonly EventRow[]): Promise<(string | null)[]> {
    const at = (ms: number) => `'${new Date(ms).toISOString()}'`;
    const times = rows.map(({ receivedAtMs }) => receivedAtMs).sort((a, b) => a - b);
    const ids = rows.map(({ id }) => uuidText(id));
    const sql = `select id, pg_current_xact_id() from events where received_at between ${at(times[0]!)} and ${at(times.at(-1)!)}
      and id in (${ids.map((id) => `'${id}'`).join(',')})`;
    const stored = new Set(await this.#link.run(sql, IN_DOUBT_MS).catch(() => []));
    return ids.map((id) => (stored.has(id) ? id : null));
  }
}

/** One statement commits the events together with their keys (see queries/events/store-deduped.ts). */
export class KeyedLane implements Lane<KeyedRow> {
  readonly #options: LaneOptions;
  readonly #isUp: () => boolean;
  /** A statement exceeded the time limit and has not ended. */
  #timedOut = false;

  /** @param isUp last known state of the database; does not query. */
  constructor(options: LaneOptions, isUp: () => boolean) {
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
