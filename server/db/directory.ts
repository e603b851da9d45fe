/**
 * Rows of one small table as the hot path knows them: nothing is read for a row that is here. LISTEN/NOTIFY keeps it true
 * (see listen.ts); a process that has not heard from its primary for a second checks before it believes.
 */
import { isUuid } from './ids.ts';

/** Reads the rows of these ids, or the newest of all, at most `rowsMax`; unknown ones are left out. Rejects when it cannot. */
type ReadRows<Row> = (ids: readonly string[] | null, rowsMax: number) => Promise<Row[]>;

interface Entry<Row> {
  row: Row;
  checkedAtMs: number;
  /** Announced as changed: known, but not to be believed before it is read again. */
  changed: boolean;
}

/** Nothing heard for this long: rows are checked again before use. */
const SILENCE_MS = 1_000;
const ROWS_MAX = 20_000;
/** Ids that do not exist are remembered apart, so that a flood of them pushes out no row. */
const ABSENT_MAX = 10_000;
/** Ids that are looked up at a time; more misses than this are refused. */
const MISSES_MAX = 1_000;

export class Directory<Row extends { readonly id: string }> {
  readonly #read: ReadRows<Row>;
  readonly #rows = new Map<string, Entry<Row>>();
  readonly #absent = new Map<string, number>();
  /** Look-ups under way. An id that is invalidated leaves, so that an older answer is not kept. */
  readonly #loads = new Map<string, Promise<Row | null>>();
  #batch: { ids: string[]; rows: Promise<Map<string, Row>> } | null = null;
  #heardAtMs = Number.NEGATIVE_INFINITY;

  constructor(read: ReadRows<Row>) {
    this.#read = read;
  }

  /** Reads all rows, so that a process that just started asks nothing under load. */
  async preload(): Promise<void> {
    for (const row of await this.#read(null, ROWS_MAX)) this.#keep(row.id, row);
  }

  /** Rows that are known. */
  get size(): number {
    return this.#rows.size;
  }

  /** What is known without asking, old or not; undefined when nothing is. */
  known(id: string): Row | undefined {
    return this.#rows.get(id)?.row;
  }

  /**
   * The row as it is now, null when there is none; a promise when the database must be asked, of undefined when it cannot be.
   * @param id a UUID in lower case; any other text is a row that does not exist.
   */
  find(id: string, nowMs: number): Row | null | Promise<Row | null | undefined> {
    const entry = this.#rows.get(id);
    if (entry !== undefined)
      return !entry.changed && this.#isBelieved(entry.checkedAtMs, nowMs)
        ? entry.row
        : this.#load(id).catch(() => undefined);
    if (!isUuid(id)) return null;
    const absentSinceMs = this.#absent.get(id);
    if (absentSinceMs !== undefined && this.#isBelieved(absentSinceMs, nowMs)) return null;
    return this.#load(id).catch(() => undefined);
  }

  /** A row changed: it is read again before it is believed; resolves when the new state holds. */
  async invalidate(id: string): Promise<void> {
    const entry = this.#rows.get(id);
    if (entry !== undefined) entry.changed = true;
    this.#absent.delete(id);
    this.#loads.delete(id);
    await this.#load(id);
  }

  /** Everything may have changed: the listener was away. */
  invalidateAll(): void {
    for (const entry of this.#rows.values()) entry.changed = true;
    this.#absent.clear();
    this.#loads.clear();
  }

  /** The primary listens to the database and says so. */
  heard(nowMs: number): void {
    this.#heardAtMs = nowMs;
  }

  #isBelieved(checkedAtMs: number, nowMs: number): boolean {
    return nowMs - this.#heardAtMs <= SILENCE_MS || nowMs - checkedAtMs <= SILENCE_MS;
  }

  /** Asks the database; misses of one turn are one query. */
  #load(id: string): Promise<Row | null> {
    const underWay = this.#loads.get(id);
    if (underWay !== undefined) return underWay;
    if (this.#loads.size >= MISSES_MAX) return Promise.reject(new Error('too many unknown ids at a time'));
    const load = this.#loadInBatch(id).then(
      (row) => {
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
    if (row === null) remember(this.#absent, id, nowMs, ABSENT_MAX);
    else remember(this.#rows, id, { row, checkedAtMs: nowMs, changed: false }, ROWS_MAX);
  }
}

/** The oldest goes when there are too many; one that is in use comes back with its next request. */
function remember<T>(map: Map<string, T>, id: string, value: T, sizeMax: number): void {
  if (map.size >= sizeMax) map.delete(map.keys().next().value as string);
  map.set(id, value);
}
