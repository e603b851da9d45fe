import { readdir } from 'node:fs/promises';
import { resolve } from 'node:path';
import type { Command } from 'commander';
import { CommandError, type CommandIo, itemsTable, printJson, printLine, printText } from '../../base/command/io.ts';
import { acquireLock } from '../../base/files/lock.ts';
import { whyUnreadable } from '../../base/files/text.ts';
import { counted } from '../../model/words.ts';
import { SpoolReader } from '../../receive/spool/contents.ts';
import { realDisk } from '../../receive/spool/disk.ts';
import { drainOf } from '../../receive/spool/drain.ts';
import { foldersIn, lockFolder } from '../../receive/spool/folder.ts';
import { parseName } from '../../receive/spool/names.ts';
import { addCounts, noTotals } from '../../receive/spool/store.ts';
import type { DrainObserver } from '../../receive/spool/store-rows.ts';
import { type CommandSession, withDatabase } from '../command/session.ts';

/** `weir spool list|drain DIR`: for the spool of a machine that does not come back. */
export function define(command: Command, io: CommandIo): void {
  const directory = 'INGEST_SPOOL_DIR of that machine, or one folder in it';
  command
    .command('list')
    .description('show what is in each folder')
    .argument('<dir>', directory)
    .option('--json', 'print one JSON document')
    .action(async (dir: string, { json }: { json?: boolean }) => {
      const folders = await Promise.all((await spoolsOf(resolve(io.directory, dir))).map(describe));
      if (json) return printJson(io, { folders });
      const columns = ['FOLDER', 'IN USE', 'EVENTS', 'BYTES', 'OLDEST', 'DAMAGED', 'REFUSED'];
      const isUsed = ({ in_use }: (typeof folders)[number]) => (in_use ? 'yes' : 'no');
      const cells = ['folder', isUsed, 'events', 'bytes', ['oldest_at', '-'], 'damaged', 'refused'] as const;
      printText(io, itemsTable(columns, cells, folders));
    });
  command
    .command('drain')
    .description('store the events of a spool in the database; those that are stored already are skipped')
    .argument('<dir>', directory)
    .option('--json', 'print one JSON document')
    .action(async (dir: string, { json }: { json?: boolean }) => {
      const folders = await spoolsOf(resolve(io.directory, dir));
      await withDatabase(io, async (session) => {
        const drained = [];
        for (const folder of folders) {
          const outcome = await drain(io, session, folder);
          drained.push(outcome);
          const { stored, duplicates, known, refused } = outcome;
          // Printed at once, since a later folder may fail.
          if (!json)
            printText(
              io,
              `${folder}: ${counted(stored, 'event')} stored, ${counted(duplicates, 'duplicate')} dropped, ${known} ${known === 1 ? 'was' : 'were'} stored already, ${refused} refused.\n`,
            );
        }
        if (json) printJson(io, { folders: drained });
      });
    });
}

async function describe(folder: string) {
  const { bytes, events, oldestMs, damaged, refused } = await new SpoolReader(realDisk, folder).read();
  const lock = await acquireLock(folder, 'exclusive', 0);
  await lock?.release();
  const oldest_at = oldestMs === null ? null : new Date(oldestMs).toISOString();
  return { folder, in_use: lock === null, events, bytes, oldest_at, damaged, refused };
}

/** The folder itself if it has segments, otherwise its folders. */
async function spoolsOf(directory: string): Promise<string[]> {
  try {
    const hasSegments = (await readdir(directory)).some((name) => parseName(name) !== null);
    return hasSegments ? [directory] : await foldersIn(directory);
  } catch (error) {
    throw new CommandError(`${directory} cannot be read: ${whyUnreadable(error as Error)}`);
  }
}

/** Drains the cells one after the other. A cell that is away does not stop the others. */
async function drain(io: CommandIo, { cells, settings }: CommandSession, folder: string) {
  const counts = noTotals();
  const lock = await lockFolder(folder);
  const retentionDays = () => settings.RETENTION_DAYS;
  const observer: DrainObserver = {
    committed: (more) => addCounts(counts, more),
    refused(sqlState, message) {
      counts.refused++;
      printLine(io, `The database refuses an event, which is kept: ${message} (${sqlState})`);
    },
    damaged: (name) => printLine(io, `${name} is damaged inside; its other events are stored, and it is kept`),
  };
  try {
    await cells.load();
    await Promise.all(cells.all().map((cell) => cell.check()));
    const reasons: string[] = [];
    for (const cell of cells.all()) {
      const { drain, close } = drainOf({ cells, folder, retentionDays, observer }, cell);
      const outcome = await drain.run().finally(close);
      if (outcome.kind === 'unavailable') reasons.push(outcome.reason);
    }
    if (reasons.length > 0)
      throw new CommandError(
        `${folder} is not drained: ${reasons.join('; ')}. Run the command again; nothing is stored twice.`,
      );
    const { webhookDeleted: webhook_deleted, ...rest } = counts;
    return { folder, ...rest, webhook_deleted };
  } finally {
    await lock.release();
  }
}
