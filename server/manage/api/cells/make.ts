/** What makes a database, or a schema on Citus, a cell. */
import { citusTables } from '../../../store/cells/address.ts';
import type { Cell } from '../../../store/cells/cell.ts';
import type { Cells } from '../../../store/cells/cells.ts';
import type { Database, DatabasePool } from '../../../store/connect/pool.ts';
import { hasTable, migrate } from '../../../store/migrate.ts';
import { openCell } from '../../../store/open.ts';
import { type CellSelf, isEmpty, nameSelf, readSelf } from '../../../store/queries/cells/cells.ts';
import { createCitusSchema, distribute, flatten } from '../../../store/queries/cells/citus.ts';
import { allowCopies } from '../../../store/queries/cells/copies.ts';
import { createPartitions } from '../../../store/retention/partitions.ts';
import { checkFit, checkVersion, checkWritable, readServer } from '../../../store/server-checks.ts';

/** Why the server cannot be a cell; null: it can. */
export async function readUnfit(
  pool: DatabasePool,
  self: CellSelf,
  cells: Pick<Cells, 'find'>,
): Promise<string | null> {
  const facts = await readServer(pool);
  // Whether commits are durable is a finding of the doctor, as it is at home.
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
