/** The server of a cell: its connection, whether it fits, and what makes a database, or a schema on Citus, a cell. */
import { invalid, type Result } from '../../../base/http/problem.ts';
import { citusTables } from '../../../store/cells/address.ts';
import type { Cell } from '../../../store/cells/cell.ts';
import type { Cells } from '../../../store/cells/cells.ts';
import { describeConninfo, withoutSecrets } from '../../../store/connect/conninfo.ts';
import type { Database, DatabasePool } from '../../../store/connect/pool.ts';
import { hasTable, migrate } from '../../../store/migrate.ts';
import { openCell } from '../../../store/open.ts';
import { type CellSelf, isEmpty, nameSelf, readSelf } from '../../../store/queries/cells/cells.ts';
import { createCitusSchema, distribute, flatten } from '../../../store/queries/cells/citus.ts';
import { allowCopies } from '../../../store/queries/cells/copies.ts';
import { createPartitions } from '../../../store/retention/partitions.ts';
import { checkFit, checkVersion, checkWritable, readServer } from '../../../store/server-checks.ts';
import { explainCommitFailure, explainRefusedConnection } from '../../conditions/commit-failure.ts';

/**
 * Runs `work` with a pool of this server. An error becomes a problem with the text of `said`.
 * @param work also gets the connection string
 */
export async function tryServer<T>(
  conninfo: string,
  isLocal: boolean,
  work: (pool: DatabasePool, conninfo: string) => Promise<Result<T>>,
): Promise<Result<T>> {
  const pool = openCell(conninfo);
  try {
    return await work(pool, conninfo);
  } catch (error) {
    return invalid('/database', said(error, conninfo, isLocal));
  } finally {
    await pool.close();
  }
}

/** Why the server cannot be used. Only a user on this machine sees the server's own message: others may name any program of the network. */
export function said(error: unknown, conninfo: string, isLocal: boolean): string {
  const { message, code = null } = error as Error & { code?: string };
  if (isLocal) return withoutSecrets(message, conninfo);
  const { finding, fix } = explainRefusedConnection(message) ?? explainCommitFailure({ sqlState: code, reason: '' });
  return `The database at ${describeConninfo(conninfo)} cannot be used: ${finding}. Fix: ${fix}.`;
}

/** Why the server cannot be a cell; null: it can. */
export async function readUnfit(
  pool: DatabasePool,
  self: CellSelf,
  cells: Pick<Cells, 'find'>,
): Promise<string | null> {
  const facts = await readServer(pool);
  // The durability of commits is not checked here: weir doctor reports it, as for home.
  for (const found of [checkVersion(facts, 'the server'), await checkFit(pool, facts), checkWritable(facts)])
    if (found !== null && found.state !== 'ok') return `${found.finding}: ${found.fix}`;
  if (!(await hasTable(pool, 'schema_migrations'))) return null;
  const found = await readSelf(pool).catch(() => null);
  if (found?.installation !== self.installation) return 'This database belongs to another installation of Weir.';
  const inUse = found.number === 0 || cells.find(found.number) !== undefined || !(await isEmpty(pool));
  return inUse
    ? `This database is ${found.number === 0 ? 'home' : `cell ${found.number}`} already, or has events.`
    : null;
}

/** Makes the tables of a cell in an empty database or schema. */
export async function prepareTables(pool: Database, { installation }: CellSelf, number: number): Promise<void> {
  await migrate(pool);
  await pool.transaction(async (query) => {
    await allowCopies(query);
    await nameSelf(query, installation, number);
  });
  await createPartitions(pool, Date.now());
}

/** Makes a schema with the tables of a cell, and gives it to a node of home's Citus cluster. */
export async function createCitusCell({ conninfo, database }: Cell, self: CellSelf, number: number): Promise<void> {
  await createCitusSchema(database, number);
  const tables = openCell(citusTables(conninfo, number));
  try {
    await prepareTables(tables, self, number);
    await tables.transaction(async (query) => {
      await flatten(query);
      await distribute(query, number);
    });
  } finally {
    await tables.close();
  }
}
