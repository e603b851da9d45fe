/** What lists read while a cell is away: the rows of the others. */
import type { CellAway } from '../../model/cells.ts';
import type { Place } from '../connect/place.ts';
import type { Database, Query, Statement } from '../connect/pool.ts';

/** Reads for one answer. A cell that is away has no rows, and is named by `cellsAway`. A statement on one id still rejects. */
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

  transaction<T>(work: (query: Query) => Promise<T>, options?: Pick<Statement, 'plan'>): Promise<T> {
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
