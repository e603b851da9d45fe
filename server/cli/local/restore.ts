import { access } from 'node:fs/promises';
import { join, resolve } from 'node:path';
import type { Command } from 'commander';
import { CommandError, type CommandIo, printJson, printLine, printText } from '../../base/command/io.ts';
import { weirCommand } from '../../base/command/name.ts';
import { readSettings, type Settings } from '../../base/settings/read.ts';
import { countLater, type Restored, restore } from '../../operate/backup/restore.ts';
import { describeBlocked } from '../../store/blocked.ts';
import { describeConninfo } from '../../store/connect/conninfo.ts';
import type { Database } from '../../store/connect/pool.ts';
import { showTableProgress } from '../command/progress.ts';
import { backupKeys, keyNote, untilSignal, withConfigured, withServer } from './backup-parts.ts';

/** `weir restore FILE`. Exits with 1 when the restored database differs from the backup. */
export function defineRestore(command: Command, io: CommandIo): void {
  command
    .argument('<file>', 'file of weir backup, or of pg_dump --format=custom')
    .option(
      '--trust-file',
      'restore also a file that SECRETS_KEY does not authenticate: a backup is code that the database runs',
    )
    .option('--into <url>', 'another database than the configured one, which is then only compared')
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
        const { restored, arrivedAfter } =
          into === undefined
            ? await withConfigured(io, settings, async ({ conninfo, database }) => ({
                restored: await load(conninfo, database),
                arrivedAfter: null,
              }))
            : await withServer(into, async (database) => {
                const restored = await load(into, database);
                return { restored, arrivedAfter: await countArrived(io, settings, database, restored) };
              });
        const report = { path, restored, arrivedAfter };
        if (json) printJson(io, asDocument(report));
        else printReport(io, settings, report);
        const { differences } = restored;
        if (differences.length > 0)
          throw new CommandError(
            json ? '' : `The restored database differs from the backup:\n${differences.join('\n')}`,
          );
      },
    );
}

/** Events of the configured database that the backup lacks; null if it does not exist or cannot be read. */
async function countArrived(io: CommandIo, settings: Settings, restored: Database, { record }: Restored) {
  if (record === null) return null;
  const exists =
    settings.database.kind === 'server' ||
    (await access(join(settings.DATA_DIR, 'postgres')).then(
      () => true,
      () => false,
    ));
  if (!exists) return null;
  try {
    return await withConfigured(io, settings, ({ database }) => countLater(database, restored, record));
  } catch (error) {
    printLine(io, `weir: what arrived after the backup was not counted: ${(error as Error).message}`);
    return null;
  }
}

interface Report {
  path: string;
  restored: Restored;
  /** Events of the configured database that the backup lacks; null: not counted. */
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
  printText(io, `Restored ${events} events${record === null ? '' : ` of ${record.snapshot_at}`}.\n`);
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
