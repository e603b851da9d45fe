/** The database of a cell: it refuses at once while the cell is away, and takes the cell away when a connection is lost. */
import { withoutSecrets } from '../connect/conninfo.ts';
import type { Database, Query } from '../connect/pool.ts';
import { DatabaseUnavailable, oneLine, POOL_TIMEOUT, STATEMENT_TIMEOUT, sqlStateKind } from '../connect/unavailable.ts';
import { onNode } from '../queries/cells/citus.ts';
import type { CellAddress } from './address.ts';
import type { CellTrouble } from './cell-trouble.ts';

const UNDEFINED_TABLE = '42P01';

interface Guarded extends Pick<CellTrouble, 'away'> {
  readonly number: number;
  readonly name: string;
  readonly address: CellAddress;
  connectionLost(reason: string): void;
}

/**
 * Wraps the pool of a cell. While the cell is away, every call rejects with a DatabaseUnavailable that names it. A lost connection takes the
 * cell away.
 */
export function guardedDatabase(cell: Guarded, pool: Database): Database {
  const { number, address } = cell;
  const { node, kind, conninfo } = address;
  const unavailable = (reason: string, code?: string) => {
    const error = new Error(`cell ${number} (${cell.name}): ${reason}`);
    return new DatabaseUnavailable(code === undefined ? error : Object.assign(error, { code }), {
      number,
      name: cell.name,
    });
  };

  /**
   * @param mayTimeOut the statement has a time limit of its own: exceeding it says nothing about the cell
   * @param isJudged true for an error of the work in a transaction: its statements are guarded themselves
   */
  async function guarded<T>(
    run: () => Promise<T>,
    mayTimeOut: boolean,
    isJudged = (_error: unknown) => false,
  ): Promise<T> {
    if (cell.away !== null) throw unavailable(cell.away);
    try {
      return await run();
    } catch (error) {
      if (isJudged(error)) throw error;
      const { code, message } = error as Error & { code?: string };
      // Citus has moved the schema, see prepareNode: the views refuse writes, and are dropped with the tables.
      const isMoved =
        kind === 'citus' && (sqlStateKind(code ?? '') === 'session_read_only' || code === UNDEFINED_TABLE);
      if (!isMoved && !(error instanceof DatabaseUnavailable)) throw error;
      const isLimit = message === POOL_TIMEOUT || (mayTimeOut && message === STATEMENT_TIMEOUT);
      // An error of the connection, not the answer of a server.
      if ((code === undefined && !isLimit) || isMoved) cell.connectionLost(message);
      throw unavailable(oneLine(withoutSecrets(message, conninfo)), code);
    }
  }

  const queryOn =
    (query: Query): Query =>
    (statement) => {
      const there = node === null ? statement : { ...statement, text: onNode(statement.text, node) };
      return guarded(() => query(there), statement.timeoutMs !== undefined);
    };

  return {
    query: queryOn(pool.query),
    transaction: (work, options) => {
      let ofWork: unknown;
      const noted = (query: Query) =>
        work(queryOn(query)).catch((error) => {
          ofWork = error;
          throw error;
        });
      return guarded(
        () => pool.transaction(noted, options),
        false,
        (error) => error === ofWork,
      );
    },
    close: () => pool.close(),
  };
}
