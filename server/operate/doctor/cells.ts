/** Checks of the cells: each is a Postgres server of its own, and must be the one that it was. */
import { weirCommand } from '../../base/command/name.ts';
import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problem } from '../../model/check.ts';
import { addressOf, type HomeAddress } from '../../store/cells/address.ts';
import { Cell } from '../../store/cells/cell.ts';
import { describeConninfo } from '../../store/connect/conninfo.ts';
import type { Database } from '../../store/connect/pool.ts';
import { COPY_CONNECTIONS } from '../../store/copy/link.ts';
import { connectionsAllowed, openCell } from '../../store/open.ts';
import { readCells, readCellUse, readSelf } from '../../store/queries/cells/cells.ts';
import { derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { checkDurability, checkVersion, checkWritable, readServer } from '../../store/server-checks.ts';
import { checkCommit } from './commit.ts';

interface Circumstances {
  settings: Settings;
  keys: SecretsKeys | null;
  nowMs: number;
}

/** Connections of a primary and of commands. */
const OTHER_CONNECTIONS = 4;

/** One check a cell that works, otherwise what is wrong with it. None without cells. */
export async function checkCells(
  { conninfo, database: home }: HomeAddress,
  circumstances: Circumstances,
): Promise<Check[]> {
  const rows = await readCells(home);
  if (rows.length === 0) return [];
  const self = (await readSelf(home))!;
  const { waiting } = await readCellUse(home);
  const checks: Check[] = [];
  for (const row of rows) {
    const keys = derivedKeys(circumstances.keys ?? [], 'cells');
    const address = await addressOf(row, keys, { conninfo, database: home });
    const cell = Cell.open(row, self, { keys, open: openCell }, address);
    try {
      checks.push(...(await checkCell(cell, circumstances, waiting.get(row.number) ?? 0)));
    } finally {
      await cell.close();
    }
  }
  return checks;
}

async function checkCell(cell: Cell, { settings, nowMs }: Circumstances, waiting: number): Promise<Check[]> {
  const named = (check: Check): Check => ({
    ...check,
    name: 'cell',
    finding: `cell ${cell.number} (${cell.name}): ${check.finding}`,
  });
  await cell.check();
  if (cell.away !== null)
    return [
      named(
        problem(
          'cell',
          `${cell.away}; events of its webhooks are refused or spooled`,
          cell.address.kind === 'citus'
            ? `start its node (select * from citus_shards names it), or after a restore: ${weirCommand()} cell update ${cell.number} --accept-restored`
            : `start its server, or: ${weirCommand()} cell update ${cell.number} --database-file FILE, with --accept-restored after a restore`,
        ),
      ),
    ];
  const { database } = cell;
  const facts = await readServer(database);
  const place = describeConninfo(cell.conninfo);
  const found = [
    checkVersion(facts, place),
    ...checkWritable(facts),
    checkDurability(facts),
    await checkBudget(database, settings),
    ...(await checkCommit(database, nowMs)),
    ...(waiting === 0
      ? []
      : [advice('cell', `${waiting} changes of webhooks and agents wait to be copied`, 'look again in a few seconds')]),
  ].filter(({ state }) => state !== 'ok');
  return found.length > 0
    ? found.map(named)
    : [named(ok('cell', `Postgres ${facts.version} at ${place} stores events durably`))];
}

async function checkBudget(database: Database, { WORKERS, DB_POOL_MAX }: Settings): Promise<Check> {
  const allowed = await connectionsAllowed(database);
  const needed = (WORKERS + 1) * (DB_POOL_MAX + COPY_CONNECTIONS) + OTHER_CONNECTIONS;
  if (allowed >= needed) return ok('cell', 'connections');
  return problem(
    'cell',
    `it allows ${allowed} connections, and this machine may open ${needed}`,
    'raise max_connections there, or lower WORKERS or DB_POOL_MAX',
  );
}
