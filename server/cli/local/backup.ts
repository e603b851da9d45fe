/** `weir backup` and `weir restore`. */
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printLine, printText } from '../../base/command/io.ts';
import { weirCommand } from '../../base/command/name.ts';
import { keyPath } from '../../base/files/data-dir.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { counted } from '../../model/words.ts';
import { backUp, refuseExisting } from '../../operate/backup/backup.ts';
import type { BackupRecord } from '../../operate/backup/record.ts';
import { countLater, type Restored, restore } from '../../operate/backup/restore.ts';
import { readCellServers } from '../../store/cells/cells.ts';
import { describeConninfo } from '../../store/connect/conninfo.ts';
import { type Database, openDatabase } from '../../store/connect/pool.ts';
import { DatabaseUnavailable } from '../../store/connect/unavailable.ts';
import { hasEmbeddedData } from '../../store/embedded/join.ts';
import { describeBlocked } from '../../store/migrate.ts';
import { attachDatabase, DatabaseError, unusable } from '../../store/open.ts';
import { derivedKeys, existingSecretsKeys } from '../../store/secrets/keys.ts';
import { showTableProgress } from '../command/progress.ts';
import { untilSignal } from '../command/run-command.ts';
import { requireInstallation } from '../command/session.ts';

/** `weir backup FILE`. Works beside a serving Weir, and on a database of an earlier release. */
export function define(command: Command, io: CommandIo): void {
  command
    .argument('<file>', 'file to create, with mode 0600')
    .option('--overwrite', 'replace an existing file')
    .option('--json', 'print one JSON document')
    .action(async (file: string, { overwrite = false, json }: { overwrite?: boolean; json?: boolean }) => {
      const settings = readSettings(io.environment, io.directory);
      const path = resolve(io.directory, file);
      await requireInstallation(settings);
      const { failures, ...records } = await untilSignal((signal) =>
        withConfigured(io, settings, (home) => backUpAll(io, settings, home, { path, overwrite, signal })),
      );
      if (json) printJson(io, records);
      else {
        for (const { file, events, deliveries, snapshot_at, bytes } of [...(records.cells ?? []), records])
          printText(
            io,
            `${file}: ${counted(events, 'event')} and ${counted(deliveries, 'delivery', 'deliveries')} of ${snapshot_at}, ${bytes} bytes.\n`,
          );
        printText(io, `${backupKeys(settings) === null ? UNSIGNED : keyNote(settings)}\n`);
      }
      if (failures.length > 0) throw new CommandError(failures.join('\n'));
    });
}

/** Backs up each cell and home, to a file each. A cell that is away is reported in `failures`; the others are backed up. */
async function backUpAll(
  io: CommandIo,
  settings: Settings,
  home: { conninfo: string; database: Database },
  { path, overwrite, signal }: { path: string; overwrite: boolean; signal: AbortSignal },
) {
  const key = backupKeys(settings)?.[0] ?? null;
  const one = async (of: { conninfo: string; database: Database }, path: string) => {
    const progress = showTableProgress(`Backing up ${describeConninfo(of.conninfo)} to ${path}`, io.stderr);
    const order = { ...of, path, overwrite, key, watcher: progress, signal };
    return described(path, await backUp(order).finally(progress.stop));
  };
  const servers = await readCellServers(home, existingSecretsKeys(settings) ?? []);
  const pathOf = (cell: number) => `${path}.cell-${cell}`;
  // Before the first backup, which may take hours.
  if (!overwrite) for (const file of [path, ...servers.map(({ number }) => pathOf(number))]) await refuseExisting(file);
  const cells = [];
  const failures: string[] = [];
  for (const { number, conninfo } of servers)
    try {
      const back = (database: Database) => one({ conninfo, database }, pathOf(number));
      cells.push({ number, ...(await withServer(conninfo, back)) });
    } catch (error) {
      if (!(error instanceof DatabaseError)) throw error;
      failures.push(`cell ${number} was not backed up: ${error.message}`);
    }
  // Home is last: its backup then has each webhook that the events of a cell belong to.
  return { ...(await one(home, path)), ...(cells.length === 0 ? {} : { cells }), failures };
}

const UNSIGNED =
  'This installation has no SECRETS_KEY and no key in DATA_DIR, so the backup is not authenticated: to restore it, --trust-file is needed.';

function described(file: string, { contents, snapshot_at, archive }: BackupRecord) {
  const { events, deliveries } = rowsOf(contents.tables);
  return { file, snapshot_at, events, deliveries, schema_version: contents.schema_version, bytes: archive.bytes };
}

function rowsOf(tables: Record<string, number>): { events: number; deliveries: number } {
  const sum = (prefix: string) =>
    Object.entries(tables).reduce((rows, [name, more]) => (name.startsWith(prefix) ? rows + more : rows), 0);
  return { events: sum('events_2'), deliveries: sum('deliveries_') };
}

/** `weir restore FILE`. Exits with 1 when the restored database differs from the backup. */
export function defineRestore(command: Command, io: CommandIo): void {
  command
    .argument('<file>', 'file of weir backup, or of pg_dump --format=custom')
    .option(
      '--trust-file',
      'restore also a file that SECRETS_KEY does not authenticate: a backup is code that the database runs',
    )
    .option(
      '--into <url>',
      'another database than the configured one, which is then only compared; keep its password out of the process list with PGPASSWORD',
    )
    .option('--json', 'print one JSON document')
    .action(
      async (
        file: string,
        { into, json, trustFile = false }: { into?: string; json?: boolean; trustFile?: boolean },
      ) => {
        const settings = readSettings(io.environment, io.directory);
        const path = resolve(io.directory, file);
        const load = (conninfo: string, database: Database) => {
          const progress = showTableProgress(`Restoring ${path} into ${describeConninfo(conninfo)}`, io.stderr);
          const onBlocked = (waitsFor: string) => progress.waiting(describeBlocked(waitsFor));
          const order = { conninfo, database, path, keys: backupKeys(settings), trustFile, watcher: progress };
          return untilSignal((signal) => restore({ ...order, onBlocked, signal })).finally(progress.stop);
        };
        const loadInto = async (conninfo: string, database: Database) => {
          const restored = await load(conninfo, database);
          const arrivedAfter = into === undefined ? null : await countArrived(io, settings, database, restored);
          return { path, restored, arrivedAfter };
        };
        const report =
          into === undefined
            ? await withConfigured(io, settings, ({ conninfo, database }) => loadInto(conninfo, database))
            : await withServer(into, (database) => loadInto(into, database));
        if (json) printJson(io, asDocument(report));
        else printReport(io, settings, report);
        const { differences } = report.restored;
        if (differences.length > 0)
          throw new CommandError(
            json ? '' : `The restored database differs from the backup:\n${differences.join('\n')}`,
          );
      },
    );
}

/** Events of the database that was backed up, home or a cell, that the backup lacks; null if it does not exist or cannot be read. */
async function countArrived(io: CommandIo, settings: Settings, restored: Database, { record, number }: Restored) {
  if (record === null) return null;
  if (settings.database.kind === 'embedded' && !(await hasEmbeddedData(settings.DATA_DIR))) return null;
  try {
    return await withConfigured(io, settings, async (home) => {
      if (number === 0) return countLater(home.database, restored, record);
      const servers = await readCellServers(home, existingSecretsKeys(settings) ?? []);
      const cell = servers.find((server) => server.number === number);
      return cell === undefined
        ? null
        : withServer(cell.conninfo, (database) => countLater(database, restored, record));
    });
  } catch (error) {
    printLine(io, `weir: what arrived after the backup was not counted: ${(error as Error).message}`);
    return null;
  }
}

interface Report {
  path: string;
  restored: Restored;
  /** Events of the database that was backed up that the backup lacks; null: not counted. */
  arrivedAfter: number | null;
}

function asDocument({ path, restored, arrivedAfter }: Report): object {
  const { record, isAuthentic, events, differences, cells, migrated } = restored;
  return {
    file: path,
    snapshot_at: record?.snapshot_at ?? null,
    authenticated: isAuthentic,
    compared: record !== null,
    events,
    differences,
    migrated,
    ...(cells.length === 0 ? {} : { cells }),
    arrived_after: arrivedAfter,
  };
}

function printReport(io: CommandIo, settings: Settings, { restored, arrivedAfter }: Report): void {
  const { record, isAuthentic, events, differences, cells, migrated } = restored;
  printText(io, `Restored ${counted(events, 'event')}${record === null ? '' : ` of ${record.snapshot_at}`}.\n`);
  if (!isAuthentic) printText(io, 'The file is not authenticated by SECRETS_KEY; it was restored for --trust-file.\n');
  if (record === null) printText(io, 'The file has no record of weir backup, so the contents were not compared.\n');
  else if (differences.length === 0)
    printText(io, 'Counts, and hashes of the newest events and deliveries, equal those of the backup.\n');
  if (arrivedAfter !== null)
    printText(io, `Events that arrived after the backup and are not in it: ${arrivedAfter}.\n`);
  else if (record !== null) printText(io, `Events that arrived after ${record.snapshot_at} are not in the backup.\n`);
  if (migrated.length > 0) printText(io, `Applied ${migrated.join(', ')}.\n`);
  if (cells.length > 0)
    printText(
      io,
      `The cells ${cells.join(', ')} are not used before you accept each, as it is or restored: ${weirCommand()} cell update NUMBER --accept-restored, with --database-file when its server is another one.\n`,
    );
  printText(io, `${keyNote(settings)} To check: ${weirCommand()} doctor\n`);
}

/** Null: no key was found. None is created, since it would differ from the key of the installation. */
function backupKeys(settings: Settings): Buffer[] | null {
  const keys = existingSecretsKeys(settings);
  return keys && derivedKeys(keys, 'backups');
}

/** What a backup lacks, for the operator. */
function keyNote({ SECRETS_KEY, DATA_DIR }: Settings): string {
  const key = SECRETS_KEY === undefined ? `The key ${keyPath(DATA_DIR)} (SECRETS_KEY)` : 'SECRETS_KEY';
  return `${key} is not in the backup, and the stored webhook secrets cannot be decrypted without it: keep it in another place.`;
}

/** Runs the work with the configured database as it is: a backup before an upgrade must not migrate. */
async function withConfigured<T>(
  io: CommandIo,
  settings: Settings,
  work: (attached: { conninfo: string; database: Database }) => Promise<T>,
): Promise<T> {
  const log = (line: string) => printLine(io, `weir: ${line}`);
  const attached = await attachDatabase(settings, log, { joinSmaller: true });
  try {
    return await work(attached).catch((error) => explain(attached.conninfo, error, settings));
  } finally {
    await attached.detach();
  }
}

async function withServer<T>(conninfo: string, work: (database: Database) => Promise<T>): Promise<T> {
  const database = openDatabase(conninfo, { connectionsMax: 2, applicationName: 'weir-restore' });
  try {
    return await work(database).catch((error) => explain(conninfo, error));
  } finally {
    await database.close();
  }
}

function explain(conninfo: string, error: unknown, settings?: Settings): never {
  throw error instanceof DatabaseUnavailable ? unusable(conninfo, error, settings) : error;
}
