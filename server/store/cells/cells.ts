/** The cells of the installation as a process knows them: their databases, and which of them can be used. */
import { setTimeout as delay } from 'node:timers/promises';
import { coalesced, every } from '../../base/time/every.ts';
import { OperatorError } from '../../model/fault.ts';
import type { Database } from '../connect/pool.ts';
import { DatabaseUnavailable } from '../connect/unavailable.ts';
import { CLOCKS_APART_MS, uuidv7Cell, uuidv7Milliseconds } from '../ids.ts';
import { readCells, readSelf } from '../queries/cells/cells.ts';
import { derivedKeys, type SecretsKeys } from '../secrets/keys.ts';
import { addressOf, type HomeAddress } from './address.ts';
import { Cell, type CellOptions } from './cell.ts';
import { type CellList, CellsDatabase } from './cells-database.ts';

/** How often a process checks that a cell answers, and is still the same database. */
const CHECK_EVERY_MS = 1_000;

interface CellsParts extends CellOptions {
  home: Database;
  /** Connection string of home. */
  conninfo: string;
}

/** All cells, home included. `load` reads them, and `watch` checks them until `close`. */
export class Cells implements CellList {
  readonly #parts: CellsParts;
  /** Runs each statement where its place says. */
  readonly database: Database;
  #all: readonly Cell[];
  #used: readonly Cell[];
  #known = false;
  /** The last read failed: a change may be missing. The cells known before are used until a read succeeds. */
  #isStale = false;
  #loading: Promise<void> = Promise.resolve();
  readonly #read = coalesced(() => this.#load());
  #stop: (() => Promise<void>) | null = null;
  /** Cells that are being checked. */
  readonly #checks = new Map<Cell, Promise<void>>();
  #onRead: () => void = () => {};

  constructor(parts: CellsParts) {
    this.#parts = parts;
    this.#all = [Cell.home(parts.conninfo, parts.home)];
    this.#used = this.#all;
    this.database = new CellsDatabase(parts.home, this);
  }

  get known(): boolean {
    return this.#known;
  }

  /** The same cells with another pool for home. */
  over(home: Database): Database {
    return new CellsDatabase(home, this);
  }

  /** The cells in use: one that is being added may have no tables yet, and one that is being removed none any more. */
  all(): readonly Cell[] {
    return this.#used;
  }

  /** Also those that are not in use. */
  listed(): readonly Cell[] {
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
    const cell = this.#used.find((each) => each.number === number);
    return cell !== undefined && uuidv7Milliseconds(id) >= cell.sinceMs - CLOCKS_APART_MS ? cell : home!;
  }

  /**
   * Reads the cells; resolves when what was changed before the call is known here. Rejects when home does not answer; `watch` then reads
   * again each second.
   */
  load(): Promise<void> {
    const loading = this.#read();
    this.#loading = loading.catch(() => {
      this.#isStale = true;
    });
    return loading;
  }

  /** Calls `work` after each read of the cells, which may have been added, changed or removed. */
  onRead(work: () => void): void {
    this.#onRead = work;
  }

  /** Checks each second whether every cell can be used, and reads the cells again if the last read failed, until `close`. */
  watch(): void {
    this.#stop = every(CHECK_EVERY_MS, async () => {
      // Citus may have moved a cell that is away to another node.
      const isMoved = this.#all.some(({ address, away }) => address.kind === 'citus' && away !== null);
      // Nothing is awaited: while home or a cell does not answer, the checks of the others continue.
      if (this.#isStale || isMoved) void this.load().catch(() => {});
      for (const cell of this.#all)
        if (!this.#checks.has(cell))
          this.#checks.set(
            cell,
            cell.check().finally(() => this.#checks.delete(cell)),
          );
    });
  }

  async close(): Promise<void> {
    await this.#stop?.();
    await Promise.all([...this.#checks.values(), this.#loading]);
    await Promise.all(this.#all.map((cell) => (cell.number === 0 ? null : cell.close())));
  }

  async #load(): Promise<void> {
    const rows = await readCells(this.#parts.home);
    const before = this.#all;
    const self = rows.length === 0 ? null : await readSelf(this.#parts.home);
    const { conninfo, home: database, keys } = this.#parts;
    const cells = await Promise.all(
      rows.map(async (row) => {
        const address = await addressOf(row, keys, { conninfo, database });
        const known = before.find((cell) => cell.isOf(row, address));
        known?.update(row);
        if (known !== undefined) return known;
        const cell = Cell.open(row, self!, this.#parts, address);
        // The node may lack what statements on the cell need.
        if (address.kind === 'citus') await cell.check();
        return cell;
      }),
    );
    this.#all = [before[0]!, ...cells];
    this.#used = this.#all.filter(({ state }) => state !== 'adding');
    this.#known = true;
    this.#isStale = false;
    for (const cell of before.slice(1)) if (!this.#all.includes(cell)) void cell.close();
    this.#onRead();
  }
}

/** Reads the connection strings of the cells on Postgres servers. Rejects with OperatorError when one cannot be read. */
export async function readCellServers(
  home: HomeAddress,
  keys: SecretsKeys,
): Promise<{ number: number; conninfo: string }[]> {
  const servers = [];
  for (const row of await readCells(home.database)) {
    const { kind, conninfo, fault } = await addressOf(row, derivedKeys(keys, 'cells'), home);
    if (kind === 'citus') continue;
    if (fault !== null)
      throw new OperatorError(
        `cell ${row.number} (${row.name}): ${fault}`,
        'give the key of this installation, or the connection string again',
      );
    servers.push({ number: row.number, conninfo });
  }
  return servers;
}

export interface CellMigrations {
  onApplied: (migration: string, cell: Cell) => void;
  /**
   * Called after each attempt that did not get a lock in time.
   * @param waitsFor the lock, and the session that holds it
   */
  onBlocked: (waitsFor: string, cell: Cell) => void;
  /** False: a cell whose migration waits for a lock is left to a later call. */
  waitsForLocks: boolean;
  /** Cancels the migrations. */
  stopping?: AbortSignal;
}

/** How long the cells have to answer before those that did are migrated. */
const ANSWERS_MS = 3_000;

/**
 * Reads the cells, and migrates those that answer, so that processes of this release refuse none of their requests. Rejects when home does
 * not answer.
 */
export async function migrateAnsweringCells(cells: Cells, migrations: CellMigrations): Promise<void> {
  await cells.load();
  await Promise.race([Promise.all(cells.all().map((cell) => cell.check())), delay(ANSWERS_MS, null, { ref: false })]);
  await migrateCells(cells, migrations);
}

/**
 * Migrates the outdated cells concurrently. Never rejects. A cell whose migration fails stays outdated, and is not used before a later call
 * migrates it.
 */
export async function migrateCells(
  cells: Cells,
  { onApplied, onBlocked, waitsForLocks, stopping }: CellMigrations,
): Promise<void> {
  await Promise.all(
    cells.all().map(async (cell) => {
      if (!cell.outdated) return;
      const leaving = new AbortController();
      const migrating = cell.migrate({
        onBlocked: (waitsFor) => {
          onBlocked(waitsFor, cell);
          if (!waitsForLocks) leaving.abort();
        },
        stopping: stopping === undefined ? leaving.signal : AbortSignal.any([stopping, leaving.signal]),
      });
      for (const migration of await migrating.catch(() => [])) onApplied(migration, cell);
    }),
  );
}
