/** A lane that commits events by COPY on its own connection. Until the lane is closed, it reconnects with back-off after each loss. */
import { setTimeout as delay } from 'node:timers/promises';
import { backoffMs } from '../../base/time/backoff.ts';
import { within } from '../../base/time/every.ts';
import { CopyConnection } from '../../store/copy/connection.ts';
import { CopyEncoder, copyEventsSql, type EventRow } from '../../store/copy/rows.ts';
import { uuidText } from '../../store/ids.ts';

/** Result of one commit, for all its rows. */
export type CommitOutcome =
  /**
   * `eventIds`: for each row, the id of the event that has its key; null: the row was not stored, because its webhook is moving to
   * another cell. `eventIds` absent: every row is a new event.
   */
  | { kind: 'committed'; eventIds?: readonly (string | null)[] }
  | { kind: 'refused'; sqlState: string; message: string }
  /**
   * The connection was lost. `lookUp`: the rows may be committed or not. It returns for each row the id of its stored event, or null,
   * and never rejects. `lookUp` null: the rows count as not committed.
   */
  | { kind: 'lost'; lookUp: (() => Promise<readonly (string | null)[]>) | null };

/** A way to commit rows, one batch at a time. */
export interface Lane {
  /** False: a commit would fail now. */
  readonly up: boolean;
  /** Prepares the next commit before its rows are known, where that saves time. */
  begin?(): void;
  /** Commits the rows, all or none. Never rejects. */
  commit(rows: readonly EventRow[]): Promise<CommitOutcome>;
}

export interface CopyOptions {
  conninfo: string;
  /** COMMIT_TIMEOUT_MS. A COPY that takes longer closes the connection and counts as lost. */
  commitTimeoutMs: number;
  /** The COPY of events; absent: into `events`. */
  copySql?: string | undefined;
  /** Rows that are not committed are spooled (see spooled-store.ts), so an outcome in doubt needs no look-up. */
  spools?: boolean;
}

/** An open transaction blocks vacuum: a COPY that waits for data longer than this is ended. */
const UNUSED_MS = 50;
const emptyCopy = new CopyEncoder().encode([]);
/** The maximum decides how soon writes resume after a failover. */
const RECONNECT = { firstMs: 100, maxMs: 1_000 };
/** After a lost result: time limit of the look-up, after which senders get 503. */
export const IN_DOUBT_MS = 5_000;

export class CopyLane implements Lane {
  readonly #options: CopyOptions;
  readonly #sql: string;
  readonly #onChange: (reason: string) => void;
  /** Each lane has its own encoder: both lanes may send at once, so they cannot share a buffer. */
  readonly #encoder = new CopyEncoder();
  #connection: CopyConnection | null = null;
  #connecting: Promise<void> | null = null;
  #stopped = false;
  /** Ends a COPY that was started and got no data. */
  #unused: NodeJS.Timeout | undefined;
  #ending: Promise<unknown> | null = null;

  /** @param onChange called when the connection is established, and when it is lost or fails, with libpq's reason. */
  constructor(options: CopyOptions, onChange: (reason: string) => void) {
    this.#options = options;
    this.#sql = options.copySql ?? copyEventsSql;
    this.#onChange = onChange;
  }

  get up(): boolean {
    return this.#connection !== null;
  }

  /** Resolves when the connection is established or permanently closed. */
  start(): Promise<void> {
    if (this.up || this.#stopped) return Promise.resolve();
    this.#connecting ??= this.#connect().finally(() => {
      this.#connecting = null;
    });
    return this.#connecting;
  }

  /** Starts the next COPY before its data is ready, which saves a round trip. Without data it is ended empty after UNUSED_MS. */
  begin(): void {
    const connection = this.#connection;
    if (connection === null || this.#ending !== null) return;
    connection.begin(this.#sql);
    clearTimeout(this.#unused);
    this.#unused = setTimeout(() => {
      this.#ending = connection.copyIn(this.#sql, emptyCopy).then(() => {
        this.#ending = null;
      });
    }, UNUSED_MS);
  }

  async commit(rows: readonly EventRow[]): Promise<CommitOutcome> {
    clearTimeout(this.#unused);
    const connection = this.#connection;
    if (connection === null) return { kind: 'lost', lookUp: null };
    const { commitTimeoutMs, spools = false } = this.#options;
    const timer = setTimeout(() => connection.close(`no commit within ${commitTimeoutMs} ms`), commitTimeoutMs);
    if (this.#ending !== null) await this.#ending;
    const outcome = await connection.copyIn(this.#sql, this.#encoder.encode(rows));
    clearTimeout(timer);
    if (outcome.kind !== 'lost') return outcome;
    return { kind: 'lost', lookUp: outcome.inDoubt && !spools ? () => this.#lookUp(rows) : null };
  }

  close(): void {
    this.#stopped = true;
    clearTimeout(this.#unused);
    this.#connection?.close();
  }

  /**
   * Finds which rows are stored. pg_current_xact_id() gives the query a commit, which waits until a synchronous standby has it. The standby
   * then has all earlier commits too. Without that wait, Postgres would show rows after a crash that no standby has (see findDeduped too).
   */
  async #lookUp(rows: readonly EventRow[]): Promise<(string | null)[]> {
    const at = (ms: number) => `'${new Date(ms).toISOString()}'`;
    const times = rows.map(({ receivedAtMs }) => receivedAtMs).sort((a, b) => a - b);
    const ids = rows.map(({ id }) => uuidText(id));
    const sql = `select id, pg_current_xact_id() from events where received_at between ${at(times[0]!)} and ${at(times.at(-1)!)}
      and id in (${ids.map((id) => `'${id}'`).join(',')})`;
    const stored = new Set(await this.#run(sql).catch(() => []));
    return ids.map((id) => (stored.has(id) ? id : null));
  }

  /** Waits for a connection, then runs a statement, each for at most IN_DOUBT_MS. Rejects on a timeout. */
  async #run(sql: string): Promise<string[]> {
    await within(IN_DOUBT_MS, this.start());
    const connection = this.#connection;
    if (connection === null) throw new Error('not connected');
    const timer = setTimeout(() => connection.close(`no response within ${IN_DOUBT_MS} ms`), IN_DOUBT_MS);
    return connection.run(sql).finally(() => clearTimeout(timer));
  }

  async #connect(): Promise<void> {
    for (let attempt = 0; !this.#stopped; attempt++) {
      try {
        this.#connection = await CopyConnection.connect(this.#options.conninfo, (reason) => this.#onClosed(reason));
        if (this.#stopped) return this.#connection.close();
        return this.#onChange('');
      } catch (error) {
        if (attempt === 0) this.#onChange((error as Error).message.trim());
        await delay(backoffMs(attempt, RECONNECT, Math.random()));
      }
    }
  }

  #onClosed(reason: string): void {
    this.#connection = null;
    if (this.#stopped) return;
    this.#onChange(reason);
    void this.start();
  }
}
