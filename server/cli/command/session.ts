/** Commands that use the database: with the settings of the server, whether or not it runs. */
import { CommandError, type CommandIo, onSignals, printLine } from '../../base/command/io.ts';
import { weirCommand } from '../../base/command/name.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { Cells } from '../../store/cells/cells.ts';
import { copyToAll } from '../../store/cells/copy.ts';
import { Changes } from '../../store/connect/listen.ts';
import type { Database } from '../../store/connect/pool.ts';
import { hasEmbeddedData } from '../../store/embedded/join.ts';
import { type AttachedDatabase, attachDatabase, migrateAttached, openCell, requireCurrent } from '../../store/open.ts';
import { derivedKeys, loadSecretsKeys, type SecretsKeys } from '../../store/secrets/keys.ts';

export interface CommandSession extends Omit<AttachedDatabase, 'database'> {
  /** Names of the migrations that were applied. */
  migrated: string[];
  database: Database;
  changes: Changes;
  cells: Cells;
  settings: Settings;
  keys: SecretsKeys;
}

/** Exit code of a command that finds no installation. */
const NO_INSTALLATION = 3;

/**
 * Attaches the database, and starts the embedded one if it does not run; the caller detaches. A signal before the detach, also during the
 * start, first leaves the embedded server and then ends this program: the last user stops that server. Throws CommandError before anything is
 * written when there is no installation.
 * @param options.migrates creates a missing installation, and upgrades the schema
 * @param options.endsOnSignal false: the caller handles signals, and detaches
 */
export async function openCommandSession(
  io: CommandIo,
  { migrates = false, endsOnSignal = true } = {},
): Promise<CommandSession> {
  const settings = readSettings(io.environment, io.directory);
  if (!migrates) await requireInstallation(settings);
  const keys = loadSecretsKeys(settings);
  const stop = new AbortController();
  const log = (line: string) => printLine(io, `weir: ${line}`);
  const attaching = attachDatabase(settings, log, { joinSmaller: true, stopping: stop.signal });
  const end = async (signal: NodeJS.Signals) => {
    stop.abort();
    await attaching.then(({ leave }) => leave()).catch(() => {});
    ignoreSignals();
    process.kill(process.pid, signal);
  };
  const ignoreSignals = endsOnSignal ? onSignals(end) : () => {};
  try {
    const attached = await attaching;
    const migrated = await (migrates ? migrateAttached(attached, settings, log) : requireCurrent(attached, settings));
    const cells = new Cells({
      home: attached.database,
      conninfo: attached.conninfo,
      keys: derivedKeys(keys, 'cells'),
      open: openCell,
    });
    const detach = async () => {
      await cells.close();
      await attached.detach().finally(ignoreSignals);
    };
    const changes = new Changes(attached.database, () => copyToAll(cells));
    return { ...attached, migrated, database: cells.database, cells, changes, detach, settings, keys };
  } catch (error) {
    ignoreSignals();
    throw error;
  }
}

/** Throws CommandError if the settings name an embedded database that does not exist: most commands do not create one. */
export async function requireInstallation({ database, DATA_DIR }: Settings): Promise<void> {
  if (database.kind !== 'embedded' || (await hasEmbeddedData(DATA_DIR))) return;
  throw new CommandError(
    `no installation in ${DATA_DIR}: set DATA_DIR, run in its directory, or create one: ${weirCommand()} start`,
    NO_INSTALLATION,
  );
}

/** Runs the work on the attached database, and detaches in every case. */
export async function withDatabase<T>(
  io: CommandIo,
  work: (session: CommandSession) => Promise<T>,
  options?: { migrates: boolean },
): Promise<T> {
  const session = await openCommandSession(io, options);
  return work(session).finally(session.detach);
}
