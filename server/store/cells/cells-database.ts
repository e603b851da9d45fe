/** One Database over all cells: each statement runs where its place says. */
import type { CellAway } from '../../model/cells.ts';
import { concatenated, type Place } from '../connect/place.ts';
import type { Database, Query, Statement, TransactionOptions } from '../connect/pool.ts';
import { DatabaseUnavailable } from '../connect/unavailable.ts';
import type { Cell } from './cell.ts';

/** A place for the events of some webhooks. */
export type CellDatabase = Pick<Cell, 'number' | 'name' | 'database' | 'away' | 'awaySinceMs'>;

export interface CellList {
  /** Reads the cells. */
  load(): Promise<void>;
  /** False before the cells were read for the first time. */
  readonly known: boolean;
  /** The cells in use, home first. */
  all(): readonly CellDatabase[];
  /** The cell of an event or a delivery. */
  of(id: string): CellDatabase;
  /** Rejects (as a thrown DatabaseUnavailable) when there is no such cell. */
  numbered(number: number): CellDatabase;
}

/**
 * A transaction over several cells is one transaction in each, opened at its first statement there. They are committed one after the other,
 * home last: after a crash in between, a change can be committed in a cell and not recorded at home.
 */
export class CellsDatabase implements Database {
  readonly #home: Database;
  readonly #cells: CellList;

  constructor(home: Database, cells: CellList) {
    this.#home = home;
    this.#cells = cells;
  }

  readonly query: Query = async (statement) => {
    const { place } = statement;
    if (place === undefined) return this.#home.query(statement);
    if (!this.#cells.known) await this.#cells.load();
    if (this.#cells.all().length === 1) return this.#home.query(statement);
    return spread(this.#cells, place, ({ number, database }) =>
      (number === 0 ? this.#home : database).query(statement),
    );
  };

  readonly transaction = async <T>(work: (query: Query) => Promise<T>, options?: TransactionOptions): Promise<T> => {
    // A migration runs before there is a table of cells.
    if (!this.#cells.known) await this.#cells.load();
    if (this.#cells.all().length === 1) return this.#home.transaction(work, options);
    return this.#home.transaction(async (atHome) => {
      const others = new Transactions(options);
      const query: Query = async <Row extends object>(statement: Statement<Row>): Promise<Row[]> => {
        const { place } = statement;
        if (place === 'session') await others.set({ text: statement.text });
        if (place === undefined || place === 'session') return atHome(statement);
        return spread(this.#cells, place, async (cell) =>
          cell.number === 0 ? atHome(statement) : (await others.of(cell))(statement),
        );
      };
      try {
        const value = await work(query);
        await others.commit();
        return value;
      } catch (error) {
        await others.rollBack();
        throw error;
      }
    }, options);
  };

  async close(): Promise<void> {
    await this.#home.close();
  }
}

async function spread<Row extends object>(
  cells: CellList,
  place: Place<Row>,
  run: (cell: CellDatabase) => Promise<Row[]>,
): Promise<Row[]> {
  if (place === 'session') return run(cells.numbered(0));
  if ('id' in place) return run(cells.of(place.id));
  if ('cell' in place) return run(cells.numbered(place.cell));
  const [chosen, merge] =
    'ids' in place
      ? [[...new Set(place.ids.map((id) => cells.of(id)))], place.merge ?? concatenated]
      : [cells.all(), place.each];
  const { lenient } = place;
  const idsIn = (cell: CellDatabase) => ('ids' in place ? place.ids.filter((id) => cells.of(id) === cell) : []);
  const read =
    lenient === undefined
      ? run
      : (cell: CellDatabase) => rowsUnlessAway(cell, (away) => lenient !== true && lenient(away, idsIn(cell)), run);
  if (chosen.length === 1) return read(chosen[0]!);
  return merge(await Promise.all(chosen.map(read)));
}

/** Reads a cell. If the cell is away, or goes away during the read, returns no rows and calls `onAway`. */
async function rowsUnlessAway<Row extends object>(
  cell: CellDatabase,
  onAway: (away: CellAway) => void,
  run: (cell: CellDatabase) => Promise<Row[]>,
): Promise<Row[]> {
  try {
    if (cell.away === null) return await run(cell);
  } catch (error) {
    if (!(error instanceof DatabaseUnavailable) || cell.away === null) throw error;
  }
  const { number, name, awaySinceMs } = cell;
  onAway({ number, name, since: new Date(awaySinceMs).toISOString() });
  return [];
}

class Transactions {
  readonly #options: TransactionOptions | undefined;
  readonly #settings: Statement[] = [];
  readonly #open = new Map<number, { query: Promise<Query>; end(commits: boolean): Promise<void> }>();

  constructor(options: TransactionOptions | undefined) {
    this.#options = options;
  }

  async set(statement: Statement): Promise<void> {
    this.#settings.push(statement);
    for (const { query } of this.#open.values()) await (await query)(statement);
  }

  of({ number, database }: CellDatabase): Promise<Query> {
    const known = this.#open.get(number);
    if (known !== undefined) return known.query;
    let end!: (commits: boolean) => void;
    const ended = new Promise<boolean>((resolve) => {
      end = resolve;
    });
    let running!: Promise<void>;
    const query = new Promise<Query>((begun, failed) => {
      running = database.transaction(
        async (within) => {
          for (const setting of this.#settings) await within(setting);
          begun(within);
          if (!(await ended)) throw rolledBack;
        },
        { ...this.#options, isPart: true },
      );
      running.catch(failed);
    });
    query.catch(() => {});
    this.#open.set(number, {
      query,
      end: (commits) => {
        end(commits);
        return running;
      },
    });
    return query;
  }

  /** Commits in one cell after the other. After the first commit nothing can be repeated: a conflict in a later cell rejects as an outage. */
  async commit(): Promise<void> {
    let isBegun = false;
    for (const [number, { end }] of this.#open) {
      this.#open.delete(number);
      await end(true).catch((error: Error) => {
        throw isBegun ? new DatabaseUnavailable(new Error(error.message)) : error;
      });
      isBegun = true;
    }
  }

  async rollBack(): Promise<void> {
    await Promise.allSettled([...this.#open.values()].map(({ end }) => end(false)));
  }
}

const rolledBack = new Error('rolled back');

/** A Database for the reads of one answer. A cell that is away has no rows, and is in `cellsAway`. A statement on one id still rejects. */
export class PartialReads implements Database {
  readonly #database: Database;
  readonly #away = new Map<number, CellAway>();

  constructor(database: Database) {
    this.#database = database;
  }

  /** The cells that the rows read so far lack; undefined: none. */
  get cellsAway(): CellAway[] | undefined {
    return this.#away.size === 0 ? undefined : [...this.#away.values()].sort((a, b) => a.number - b.number);
  }

  readonly query: Query = (statement) => this.#database.query(this.#partial(statement));

  transaction<T>(work: (query: Query) => Promise<T>, options?: TransactionOptions): Promise<T> {
    return this.#database.transaction((query) => work((statement) => query(this.#partial(statement))), options);
  }

  close(): Promise<void> {
    return this.#database.close();
  }

  #partial<Row extends object>(statement: Statement<Row>): Statement<Row> {
    const { place } = statement;
    if (place === undefined || place === 'session' || !('each' in place || 'ids' in place)) return statement;
    const noted: Place<Row> = { ...place, lenient: (away) => this.#away.set(away.number, away) };
    return { ...statement, place: noted };
  }
}
