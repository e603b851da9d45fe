import { resolve } from 'node:path';
import type { Command } from 'commander';
import { type CommandIo, printJson, printText } from '../../base/command/io.ts';
import { readSettings } from '../../base/settings/read.ts';
import { backUp } from '../../operate/backup/backup.ts';
import type { BackupRecord } from '../../operate/backup/record.ts';
import { readCellServers } from '../../store/cells/cells.ts';
import { describeConninfo } from '../../store/connect/conninfo.ts';
import type { Database } from '../../store/connect/pool.ts';
import { existingSecretsKeys } from '../../store/secrets/keys.ts';
import { showTableProgress } from '../command/progress.ts';
import { backupKeys, keyNote, untilSignal, withConfigured, withServer } from './backup-parts.ts';

/** `weir backup FILE`. Works beside a serving Weir, and on a database of an earlier release. */
export function defineBackup(command: Command, io: CommandIo): void {
  command
    .argument('<file>', 'file to create, with mode 0600')
    .option('--overwrite', 'replace an existing file')
    .option('--json', 'print one JSON document')
    .action(async (file: string, { overwrite = false, json }: { overwrite?: boolean; json?: boolean }) => {
      const settings = readSettings(io.environment, io.directory);
      const path = resolve(io.directory, file);
      const records = await withConfigured(io, settings, async ({ conninfo, database }) => {
        const one = (of: { conninfo: string; database: Database }, path: string) => {
          const progress = showTableProgress(`Backing up ${describeConninfo(of.conninfo)} to ${path}`, io.stderr);
          const key = backupKeys(settings)?.[0] ?? null;
          return untilSignal((signal) => backUp({ ...of, path, overwrite, key, watcher: progress, signal }))
            .finally(progress.stop)
            .then((record) => described(path, record));
        };
        // Home is the last: what it knows, such as a webhook, is in no cell before.
        const cells = [];
        for (const { number, ...cell } of await readCellServers(
          { conninfo, database },
          existingSecretsKeys(settings) ?? [],
        )) {
          const record = await withServer(cell.conninfo, (database) =>
            one({ ...cell, database }, `${path}.cell-${number}`),
          );
          cells.push({ number, ...record });
        }
        return { ...(await one({ conninfo, database }, path)), ...(cells.length === 0 ? {} : { cells }) };
      });
      if (json) return printJson(io, records);
      for (const { file, events, deliveries, snapshot_at, bytes } of [...(records.cells ?? []), records])
        printText(io, `${file}: ${events} events and ${deliveries} deliveries of ${snapshot_at}, ${bytes} bytes.\n`);
      printText(io, `${backupKeys(settings) === null ? UNSIGNED : keyNote(settings)}\n`);
    });
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
