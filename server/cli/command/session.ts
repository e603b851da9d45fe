/** Commands that use the database: with the settings of the server, whether or not it runs. */

import { type CommandIo, printMessage } from '../../base/command/io.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { Changes } from '../../store/announce.ts';
import { Cells } from '../../store/cells/cells.ts';
import { copyToAll } from '../../store/cells/copy.ts';
import type { Database } from '../../store/connect/pool.ts';
import { type OpenedDatabase, openCell, openMigrated } from '../../store/open.ts';
import { derivedKeys, loadSecretsKeys, type SecretsKeys } from '../../store/secrets/keys.ts';

export interface CommandSession extends Omit<OpenedDatabase, 'database'> {
  database: Database;
  changes: Changes;
  cells: Cells;
  settings: Settings;
  keys: SecretsKeys;
}

/** Attaches the database (starts the embedded one when it is not running). The caller detaches. */
export async function openSession(io: CommandIo): Promise<CommandSession> {
  const settings = readSettings(io.environment, io.directory);
  const keys = loadSecretsKeys(settings);
  const attached = await openMigrated(settings, (line) => printMessage(io, `weir: ${line}\n`), {
    joinSmaller: true,
  });
  const cells = new Cells({
    home: attached.database,
    conninfo: attached.conninfo,
    keys: derivedKeys(keys, 'cells'),
    open: openCell,
  });
  const detach = async () => {
    await cells.close();
    await attached.detach();
  };
  const changes = new Changes(attached.database, () => copyToAll(cells));
  return { ...attached, database: cells.database, cells, changes, detach, settings, keys };
}

/** Runs the work on the attached database, and detaches in every case. */
export async function withDatabase<T>(io: CommandIo, work: (session: CommandSession) => Promise<T>): Promise<T> {
  const session = await openSession(io);
  try {
    return await work(session);
  } finally {
    await session.detach();
  }
}
