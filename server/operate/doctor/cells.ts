/** Checks of the cells: each is a Postgres server of its own, and must still be the same server. */
import { weirCommand } from '../../base/command/name.ts';
import type { Settings } from '../../base/settings/read.ts';
import { explainCommitFailure } from '../../manage/conditions/commit-failure.ts';
import { advice, broken, type Finding, ok } from '../../model/check.ts';
import { counted } from '../../model/words.ts';
import { addressOf, type HomeAddress } from '../../store/cells/address.ts';
import { Cell } from '../../store/cells/cell.ts';
import { probeCommit } from '../../store/commit-probe.ts';
import { describeConninfo } from '../../store/connect/conninfo.ts';
import type { Database } from '../../store/connect/pool.ts';
import { sqlStateKind } from '../../store/connect/unavailable.ts';
import { COPY_CONNECTIONS } from '../../store/copy/connection.ts';
import { connectionsAllowed, openCell } from '../../store/open.ts';
import { readCells, readCellUse, readSelf } from '../../store/queries/cells/cells.ts';
import { derivedKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { checkDurability, checkVersion, checkWritable, readServer } from '../../store/server-checks.ts';

interface Circumstances {
  settings: Settings;
  keys: SecretsKeys | null;
  nowMs: () => number;
}

/** Connections of a primary and of commands. */
const OTHER_CONNECTIONS = 4;

/** One finding for a cell that works, otherwise one for each of its faults. Empty without cells. */
export async function checkCells({
  conninfo,
  database: home,
  ...given
}: HomeAddress & Circumstances): Promise<Finding[]> {
  const rows = await readCells(home);
  if (rows.length === 0) return [];
  const self = (await readSelf(home))!;
  const { waiting } = await readCellUse(home);
  const keys = derivedKeys(given.keys ?? [], 'cells');
  const found: Finding[] = [];
  for (const row of rows) {
    const address = await addressOf(row, keys, { conninfo, database: home });
    const cell = Cell.open(row, self, { keys, open: openCell }, address);
    try {
      for (const one of await checkCell(cell, given, waiting.get(row.number) ?? 0))
        found.push({ ...one, finding: `cell ${cell.number} (${cell.name}): ${one.finding}` });
    } finally {
      await cell.close();
    }
  }
  return found;
}

async function checkCell(cell: Cell, { settings, nowMs }: Circumstances, waiting: number): Promise<Finding[]> {
  await cell.check();
  if (cell.away !== null)
    return [
      broken(
        `${cell.away}; events of its webhooks are refused or spooled`,
        cell.address.kind === 'citus'
          ? `start its node (select * from citus_shards names it), or after a restore: ${weirCommand()} cell update ${cell.number} --accept-restored`
          : cell.outdated
            ? `${weirCommand()} migrate`
            : `start its server, or: ${weirCommand()} cell update ${cell.number} --database-file FILE, with --accept-restored after a restore`,
      ),
    ];
  const { database } = cell;
  const facts = await readServer(database);
  const place = describeConninfo(cell.conninfo);
  const all = [
    checkVersion(facts, place),
    checkWritable(facts),
    checkDurability(facts),
    await checkBudget(database, settings),
    await tryCommit(database, nowMs()),
    waiting === 0
      ? null
      : advice(`${counted(waiting, 'change')} of webhooks and agents not yet copied`, 'look again in a few seconds'),
  ];
  const found = all.filter((one) => one !== null).filter(({ state }) => state !== 'ok');
  return found.length > 0 ? found : [ok(`Postgres ${facts.version} at ${place} stores events durably`)];
}

/** Null: it allows the connections of this machine. */
async function checkBudget(database: Database, { WORKERS, DB_POOL_MAX }: Settings): Promise<Finding | null> {
  const allowed = await connectionsAllowed(database);
  const needed = (WORKERS + 1) * (DB_POOL_MAX + COPY_CONNECTIONS) + OTHER_CONNECTIONS;
  if (allowed >= needed) return null;
  return broken(
    `it allows ${allowed} connections, and this machine may open ${needed}`,
    'raise max_connections there, or lower WORKERS or DB_POOL_MAX',
  );
}

/** Whether an event could be stored now, by the trial commit of readyz, which stores nothing. Null: the check of partitions says why not. */
export async function tryCommit(database: Database, nowMs: number): Promise<Finding | null> {
  try {
    await probeCommit(database, nowMs);
    return ok('a trial commit of an event succeeds');
  } catch (error) {
    const { code, message } = error as Error & { code?: string };
    if (sqlStateKind(code ?? '') === 'partition_missing') return null;
    const { finding, fix, said } = explainCommitFailure({ sqlState: code ?? null, reason: message });
    return broken(`Postgres does not commit events: ${finding} (${said})`, fix);
  }
}
