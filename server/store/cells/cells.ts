/** The cells of the installation as a process knows them: their databases, and which of them can be used. */
import { every } from '../../base/net/every.ts';
import { OperatorError } from '../../model/fault.ts';
import { describeConninfo, withoutSecrets } from '../conninfo.ts';
import { uuidv7Cell, uuidv7Milliseconds } from '../ids.ts';
import type { Database } from '../pool.ts';
import { type CellRow, type CellSelf, readCells, readSelf } from '../queries/cells.ts';
import { derivedKeys, type SecretsKeys } from '../secrets/keys.ts';
import { unseal } from '../secrets/seal.ts';
import { DatabaseUnavailable } from '../unavailable.ts';
import { type CellDatabase, type CellList, CellsDatabase } from './cells-database.ts';

/** How often a process asks a cell whether it answers, and is the one it was. */
const ASK_EVERY_MS = 1_000;
const ASK_TIMEOUT_MS = 2_000;
/** Clocks differ: an id of up to this long before its cell was added may be of that cell. */
const CLOCKS_APART_MS = 600_000;

interface CellsParts {
  home: Database;
  /** Connection string of home. */
  conninfo: string;
  /** Keys that seal connection strings, current first. */
  keys: readonly Buffer[];
  /** Opens the pool of a cell. */
  open: (conninfo: string) => Database;
  /** A cell cannot be used any more, or (null) can be again. */
  onAway?: (cell: Cell, reason: string | null) => void;
}

export class Cells implements CellList {
  readonly #parts: CellsParts;
  /** Runs each statement where its place says. */
  readonly database: Database;
  #all: readonly Cell[];
  #known = false;
  #loading: Promise<void> | null = null;
  #stop: (() => Promise<void>) | null = null;

  constructor(parts: CellsParts) {
    this.#parts = parts;
    this.#all = [Cell.home(parts.conninfo, parts.home)];
    this.database = new CellsDatabase(parts.home, this);
  }

  get known(): boolean {
    return this.#known;
  }

  /** The same cells with another pool for home. */
  over(home: Database): Database {
    return new CellsDatabase(home, this);
  }

  all(): readonly Cell[] {
    return this.#all;
  }

  find(number: number): Cell | undefined {
    return this.#all.find((each) => each.number === number);
  }

  numbered(number: number): Cell {
    const cell = this.find(number);
    if (cell === undefined) throw new DatabaseUnavailable(new Error(`cell ${number} is not known`));
    return cell;
  }

  of(id: string): Cell {
    const [home] = this.#all;
    if (this.#all.length === 1) return home!;
    const number = uuidv7Cell(id);
    const cell = this.find(number);
    return cell !== undefined && uuidv7Milliseconds(id) >= cell.sinceMs - CLOCKS_APART_MS ? cell : home!;
  }

  /** As a cache of the process. */
  preload(): Promise<void> {
    return this.load();
  }

  /** Reads the cells. Rejects when home does not answer. */
  load(): Promise<void> {
    this.#loading ??= this.#load().finally(() => {
      this.#loading = null;
    });
    return this.#loading;
  }

  /** Reads the cells again after a change; resolves when that is known here. */
  async changed(): Promise<void> {
    await this.#loading?.catch(() => {});
    await this.load();
  }

  /** Asks every cell each second whether it can be used, until `close`. */
  watch(): void {
    this.#stop = every(ASK_EVERY_MS, async () => {
      await Promise.all(this.#all.map((cell) => cell.ask()));
    });
  }

  async close(): Promise<void> {
    await this.#stop?.();
    await Promise.all(this.#all.map((cell) => (cell.number === 0 ? null : cell.close())));
  }

  async #load(): Promise<void> {
    const rows = await readCells(this.#parts.home);
    const before = this.#all;
    const self = rows.length === 0 ? null : await readSelf(this.#parts.home);
    const cells = rows.map((row) => {
      const known = before.find((cell) => cell.isOf(row));
      known?.take(row);
      return known ?? Cell.open(row, self!, this.#parts);
    });
    this.#all = [before[0]!, ...cells];
    this.#known = true;
    for (const cell of before.slice(1)) if (!this.#all.includes(cell)) void cell.close();
  }
}

/**
 * The connection strings of the cells, for a program that uses none of them as a cell; none before the release that knows them. Throws
 * OperatorError when no key opens one.
 */
export async function readCellServers(
  home: Pick<Database, 'query'>,
  keys: SecretsKeys,
): Promise<{ number: number; conninfo: string }[]> {
  return (await readCells(home)).map(({ number, id, name, sealed }) => {
    const conninfo = unseal(sealed, derivedKeys(keys, 'cells'), id)?.toString();
    if (conninfo !== undefined) return { number, conninfo };
    throw new OperatorError(
      `SECRETS_KEY does not open the connection string of cell ${number} (${name})`,
      'give the key of this installation',
    );
  });
}

/** Home, or another Postgres server. */
export class Cell implements CellDatabase {
  readonly number: number;
  readonly conninfo: string;
  /** Refuses at once while the cell is away. */
  readonly database: Database;
  readonly #pool: Database;
  readonly #self: CellSelf | null;
  readonly #onAway: NonNullable<CellsParts['onAway']>;
  #row: CellRow | null = null;
  #away: string | null = null;
  #awaySinceMs = 0;
  /** The highest mark that was seen in the cell or at home. */
  #mark = 0;

  private constructor(
    number: number,
    conninfo: string,
    pool: Database,
    self: CellSelf | null,
    onAway: NonNullable<CellsParts['onAway']>,
  ) {
    this.number = number;
    this.conninfo = conninfo;
    this.#pool = pool;
    this.#self = self;
    this.#onAway = onAway;
    this.database =
      number === 0
        ? pool
        : {
            query: (statement) => this.#guarded(() => pool.query(statement)),
            transaction: (work, options) => this.#guarded(() => pool.transaction(work, options)),
            close: () => pool.close(),
          };
  }

  static home(conninfo: string, database: Database): Cell {
    return new Cell(0, conninfo, database, null, () => {});
  }

  /** @param self what home says of itself */
  static open(row: CellRow, self: CellSelf, { keys, open, onAway = () => {} }: CellsParts): Cell {
    const conninfo = unseal(row.sealed, keys, row.id)?.toString() ?? null;
    const cell = new Cell(row.number, conninfo ?? '', open(conninfo ?? 'host=/nonexistent'), self, onAway);
    cell.take(row);
    if (conninfo === null) cell.#becomes('its connection string cannot be read with SECRETS_KEY');
    return cell;
  }

  get name(): string {
    return this.#row?.name ?? 'home';
  }

  get state(): CellRow['state'] {
    return this.#row?.state ?? 'active';
  }

  get away(): string | null {
    return this.#away;
  }

  /** Since when it cannot be used, Unix milliseconds. */
  get awaySinceMs(): number {
    return this.#awaySinceMs;
  }

  /** When it was added, Unix milliseconds. */
  get sinceMs(): number {
    return this.#row?.createdAtMs ?? 0;
  }

  /** Whether this object is of that cell, with that connection. */
  isOf({ id, sealed }: CellRow): boolean {
    return this.#row !== null && this.#row.id === id && this.#row.sealed.equals(sealed);
  }

  take(row: CellRow): void {
    this.#row = row;
    this.#mark = row.mark;
  }

  /** Finds out whether the cell can be used. */
  async ask(): Promise<void> {
    // A cell that is being added has no schema yet, and is not used.
    if (this.number === 0 || this.conninfo === '' || this.state === 'adding') return;
    try {
      const found = await readSelf(this.#pool, ASK_TIMEOUT_MS);
      this.#becomes(this.#differs(found));
      if (this.#away === null) this.#mark = Math.max(this.#mark, found!.mark);
    } catch (error) {
      this.#becomes(oneLine(withoutSecrets((error as Error).message, this.conninfo)));
    }
  }

  /** A connection was lost: the cell is used again when it was asked. A server that comes back may be another one. */
  lost(reason: string): void {
    if (this.number !== 0) this.#becomes(oneLine(withoutSecrets(reason, this.conninfo)));
  }

  async close(): Promise<void> {
    await this.#pool.close();
  }

  #differs(found: CellSelf | null): string | null {
    const { installation } = this.#self!;
    if (found === null || found.installation !== installation || found.number !== this.number)
      return `the database at ${describeConninfo(this.conninfo)} is not cell ${this.number} of this installation`;
    if (found.mark < this.#mark) return 'it was restored from a backup, or another server answers';
    return null;
  }

  #becomes(away: string | null): void {
    const changed = (away === null) !== (this.#away === null);
    this.#away = away;
    if (changed) this.#awaySinceMs = Date.now();
    if (changed) this.#onAway(this, away);
  }

  async #guarded<T>(run: () => Promise<T>): Promise<T> {
    if (this.#away !== null) throw this.#unavailable(this.#away);
    try {
      return await run();
    } catch (error) {
      if (!(error instanceof DatabaseUnavailable)) throw error;
      const reason = oneLine(withoutSecrets(error.message, this.conninfo));
      // An error of the connection, not the answer of a server.
      if (error.code === undefined) this.lost(error.message);
      throw this.#unavailable(reason, error.code);
    }
  }

  #unavailable(reason: string, code?: string): DatabaseUnavailable {
    const error = new Error(`cell ${this.number} (${this.name}): ${reason}`);
    return new DatabaseUnavailable(code === undefined ? error : Object.assign(error, { code }));
  }
}

function oneLine(text: string): string {
  return text.trim().replace(/\s+/g, ' ');
}
