/**
 * In-memory cache of one small table for the hot path: a cached row needs no query. LISTEN/NOTIFY keeps the cache current
 * (see connect/listen.ts). A process that got no heartbeat from its primary for a second rechecks rows before use.
 */
import { isUuid } from './ids.ts';

/** Reads the rows with these ids (null: the newest rows), at most `rowsMax`; unknown ids are omitted. Rejects on failure. */
type ReadRows<Row> = (ids: readonly string[] | null, rowsMax: number) => Promise<Row[]>;

interface Entry<Row> {
  row: Row;
  checkedAtMs: number;
  /** The row must be read again before use: it was announced as changed, or announcements may have been missed. */
  changed: 'announced' | 'perhaps' | null;
  /** It was looked up since it was last considered for eviction. */
  used: boolean;
}

/** Without a heartbeat for this long, rows are rechecked before use. */
const SILENCE_MS = 1_000;
/** With `keepsServing`: how long a request waits for the check, and the interval of checks while the database does not answer. */
const PATIENCE_MS = 500;
const RETRY_EVERY_MS = 500;
/** Number of rows, the newest, that are read at the start. */
const PRELOADED_MAX = 20_000;
/** Rows of one query of `readAhead`. The event loop takes them at once, so they are few. */
const PART_ROWS = 100;
const UUID_CHARS = 36;
/** Rows in memory, 1.5 to 2 KB each (bench/NOTES.md). With one webhook more, all used in turn, every request would need a query. */
export const ROWS_MAX = 200_000;
/** Ids that do not exist are cached separately, so that a flood of them evicts no row. */
const ABSENT_MAX = 10_000;
/** Limit on concurrent look-ups; further misses are rejected. */
const MISSES_MAX = 1_000;

/** The cached rows of a table. */
export class Directory<Row extends { readonly id: string }> {
  readonly #read: ReadRows<Row>;
  readonly #rows = new Map<string, Entry<Row>>();
  readonly #absent = new Map<string, number>();
  /** Look-ups in progress. Invalidation removes the id, so that an outdated result is not cached. */
  readonly #loads = new Map<string, Promise<Row | null>>();
  #batch: { ids: string[]; rows: Promise<Map<string, Row>> } | null = null;
  /** Running preloads: the ids announced as changed since their start, and whether announcements may have been missed. */
  readonly #preloads = new Set<{ changed: Set<string>; missed: boolean }>();
  #heartbeatAtMs = Number.NEGATIVE_INFINITY;
  readonly #readIds: (rowsMax: number) => Promise<string>;
  readonly #keepsServing: () => boolean;
  /** Time of the last check that was not answered; null: the last one was. */
  #unansweredAtMs: number | null = null;

  /**
   * @param keepsServing while the database does not answer, a row is used as it was last read, unless it was announced as changed. A
   * change that was not announced to this process is then not applied.
   * @param readIds for `readAhead`: ids joined by commas, those that are needed first at the beginning
   */
  constructor(
    read: ReadRows<Row>,
    {
      keepsServing = () => false,
      readIds = async () => '',
    }: { keepsServing?: () => boolean; readIds?: (rowsMax: number) => Promise<string> } = {},
  ) {
    this.#read = read;
    this.#readIds = readIds;
    this.#keepsServing = keepsServing;
  }

  /** Reads the newest rows, so that a new process does not query them under load. A row that changes during the read is left out. */
  async preload(): Promise<void> {
    const since = { changed: new Set<string>(), missed: false };
    this.#preloads.add(since);
    const rows = await this.#read(null, PRELOADED_MAX).finally(() => this.#preloads.delete(since));
    const unchanged = rows.filter(({ id }) => !since.changed.has(id));
    if (since.missed) this.seed(unchanged.filter(({ id }) => !this.#rows.has(id) && !this.#absent.has(id)));
    else for (const row of unchanged) this.#keep(row.id, row);
  }

  /**
   * Reads the rows that `preload` left out, in parts, until memory has ROWS_MAX. Look-ups of rows that are not in memory do not wait for
   * it. Rejects on failure.
   */
  async readAhead(): Promise<void> {
    if (this.#rows.size < PRELOADED_MAX) return;
    const ids = await this.#readIds(ROWS_MAX);
    // Not split: 200,000 strings at once would be a pause of the event loop.
    for (let at = 0; at < ids.length && this.#rows.size < ROWS_MAX; ) {
      const part: Promise<unknown>[] = [];
      for (; at < ids.length && part.length < PART_ROWS; at += UUID_CHARS + 1) {
        const id = ids.slice(at, at + UUID_CHARS);
        if (!this.#rows.has(id)) part.push(this.#load(id));
      }
      await Promise.all(part);
    }
  }

  /** Adds rows that were read in the past, by another process. They are checked before use, as after a lost connection. */
  seed(rows: readonly Row[]): void {
    for (const row of rows) this.#remember(row, Number.NEGATIVE_INFINITY, 'perhaps');
  }

  get size(): number {
    return this.#rows.size;
  }

  /** Returns the cached row without a query, current or not; undefined if it is not cached. */
  known(id: string): Row | undefined {
    return this.#rows.get(id)?.row;
  }

  /**
   * Returns the current row, or null if it does not exist. Returns a promise if a query is needed; it resolves to undefined if the query
   * fails.
   * @param id a UUID in lower case; for any other text no row exists.
   */
  find(id: string, nowMs: number): Row | null | Promise<Row | null | undefined> {
    const entry = this.#rows.get(id);
    if (entry !== undefined) {
      entry.used = true;
      if (entry.changed === null && this.#isFresh(entry.checkedAtMs, nowMs)) return entry.row;
      if (this.#keepsServing() && entry.changed !== 'announced') return this.#currentOrLast(id, entry.row);
      return this.#load(id).catch(() => undefined);
    }
    if (!isUuid(id)) return null;
    const absentSinceMs = this.#absent.get(id);
    if (absentSinceMs !== undefined && this.#isFresh(absentSinceMs, nowMs)) return null;
    return this.#load(id).catch(() => undefined);
  }

  /** Marks a row as changed and reads it again. Resolves when the new state is cached. */
  async invalidate(id: string): Promise<void> {
    for (const { changed } of this.#preloads) changed.add(id);
    const entry = this.#rows.get(id);
    if (entry !== undefined) entry.changed = 'announced';
    this.#absent.delete(id);
    this.#loads.delete(id);
    await this.#load(id);
  }

  /** Marks all rows as changed, because the listener was disconnected. */
  invalidateAll(): void {
    for (const preload of this.#preloads) preload.missed = true;
    for (const entry of this.#rows.values()) entry.changed ??= 'perhaps';
    this.#absent.clear();
    this.#loads.clear();
  }

  /** Records a heartbeat of the primary: it is listening to the database. */
  recordHeartbeat(nowMs: number): void {
    this.#heartbeatAtMs = nowMs;
  }

  #isFresh(checkedAtMs: number, nowMs: number): boolean {
    return isRecent(this.#heartbeatAtMs, nowMs) || isRecent(checkedAtMs, nowMs);
  }

  /** Reads the row. Returns the row as last read if the answer takes too long, or if the last check got no answer. */
  #currentOrLast(id: string, last: Row): Row | Promise<Row | null> {
    const nowMs = performance.now();
    const away = this.#unansweredAtMs !== null;
    if (away && nowMs - this.#unansweredAtMs! < RETRY_EVERY_MS) return last;
    const unanswered = () => {
      this.#unansweredAtMs = performance.now();
      return last;
    };
    const loading = this.#load(id).catch(unanswered);
    if (away) return unanswered();
    let timer: NodeJS.Timeout;
    const patience = new Promise<Row>((resolve) => {
      timer = setTimeout(() => resolve(unanswered()), PATIENCE_MS);
    });
    return Promise.race([loading, patience]).finally(() => clearTimeout(timer));
  }

  /** Queries the database; misses of one event loop turn share one query. */
  #load(id: string): Promise<Row | null> {
    const underWay = this.#loads.get(id);
    if (underWay !== undefined) return underWay;
    if (this.#loads.size >= MISSES_MAX) return Promise.reject(new Error('too many unknown ids at a time'));
    const load = this.#loadInBatch(id).then(
      (row) => {
        this.#unansweredAtMs = null;
        if (this.#loads.get(id) === load) this.#keep(id, row);
        return row;
      },
      (error) => {
        if (this.#loads.get(id) === load) this.#loads.delete(id);
        throw error;
      },
    );
    this.#loads.set(id, load);
    return load;
  }

  async #loadInBatch(id: string): Promise<Row | null> {
    this.#batch ??= this.#openBatch();
    this.#batch.ids.push(id);
    return (await this.#batch.rows).get(id) ?? null;
  }

  #openBatch(): { ids: string[]; rows: Promise<Map<string, Row>> } {
    const ids: string[] = [];
    const rows = new Promise<void>((resolve) => setImmediate(resolve)).then(async () => {
      this.#batch = null;
      return new Map((await this.#read(ids, ids.length)).map((row) => [row.id, row]));
    });
    return { ids, rows };
  }

  #keep(id: string, row: Row | null): void {
    const nowMs = Date.now();
    this.#loads.delete(id);
    this.#rows.delete(id);
    this.#absent.delete(id);
    if (row !== null) return this.#remember(row, nowMs, null);
    if (this.#absent.size >= ABSENT_MAX) this.#absent.delete(this.#absent.keys().next().value!);
    this.#absent.set(id, nowMs);
  }

  #remember(row: Row, checkedAtMs: number, changed: Entry<Row>['changed']): void {
    if (this.#rows.size >= ROWS_MAX) this.#evict();
    this.#rows.set(row.id, { row, checkedAtMs, changed, used: false });
  }

  /** Evicts the oldest row that was not looked up since it was last considered for eviction. */
  #evict(): void {
    for (const [id, entry] of this.#rows) {
      this.#rows.delete(id);
      if (!entry.used) return;
      entry.used = false;
      this.#rows.set(id, entry);
    }
  }
}

/** A time far in the future is not recent: the clock was set back since, and the row would count as current until that time. */
function isRecent(atMs: number, nowMs: number): boolean {
  return Math.abs(nowMs - atMs) <= SILENCE_MS;
}
