/** Checks of INGEST_SPOOL_DIR. */

import { stat, statfs } from 'node:fs/promises';
import { weirCommand } from '../../base/command/name.ts';
import type { Settings } from '../../base/settings/read.ts';
import { HOUR_MS } from '../../base/time/durations.ts';
import { advice, type Check, ok, problem } from '../../model/check.ts';
import { type SpoolContents, SpoolReader } from '../../receive/spool/contents.ts';
import { isFull, realDisk } from '../../receive/spool/disk.ts';
import { foldersIn, ownFolder } from '../../receive/spool/folder.ts';
import { SpoolWriter } from '../../receive/spool/writer.ts';

const TMPFS_MAGIC = 0x01021994;

/** Checks that the directory exists, can be written and flushed, and has room, and what the spools in it hold. Never rejects. */
export async function checkSpool(settings: Settings, nowMs: () => number = Date.now): Promise<Check[]> {
  const { INGEST_SPOOL_DIR: directory, DATA_DIR, INGEST_SPOOL_BYTES_MAX: bytesMax } = settings;
  const name = 'spool';
  if (directory === undefined)
    return [ok(name, 'INGEST_SPOOL_DIR is unset: while Postgres is away, webhook requests are answered 503')];
  if ((await stat(directory).catch(() => null)) === null)
    return [ok(name, `${directory} will be created at the first start`)];
  const own = ownFolder(directory, DATA_DIR);
  const writer = new SpoolWriter({
    disk: realDisk,
    folder: own ?? directory,
    bytesMax,
    ageMaxMs: settings.INGEST_SPOOL_HOURS_MAX * HOUR_MS,
    writers: () => settings.WORKERS,
    nowMs,
    onFailed() {},
  });
  try {
    await writer.check();
    const checks = [await checkRoom(directory, bytesMax)];
    if (own !== null) checks.push(...checkContents(own, await read(own), settings, nowMs()));
    for (const folder of await foldersIn(directory))
      if (folder !== own) checks.push(...checkOther(folder, await read(folder).catch(() => null)));
    return checks;
  } catch (error) {
    return [
      problem(
        name,
        `the spool ${own ?? directory} cannot be written and flushed: ${(error as Error).message}`,
        isFull(error)
          ? `free space on the disk of ${directory}, or enlarge it: while it is full and Postgres is away, webhook requests are answered 503`
          : 'make the user that Weir runs as its owner, or set INGEST_SPOOL_DIR to a directory on a local disk',
      ),
    ];
  }
}

const read = (folder: string) => new SpoolReader(realDisk, folder).read();
const inMib = (bytes: number) => `${(bytes / 2 ** 20).toFixed(1)} MiB`;

async function checkRoom(directory: string, bytesMax: number): Promise<Check> {
  const { bavail, bsize, type } = await statfs(directory);
  if (type === TMPFS_MAGIC)
    return problem(
      'spool',
      `INGEST_SPOOL_DIR ${directory} is in memory (tmpfs): a power cut loses events that were answered 202`,
      'set it to a directory on a disk',
    );
  const finding = `${directory} can be written and flushed; ${inMib(bavail * bsize)} are free`;
  if (bavail * bsize >= bytesMax) return ok('spool', finding);
  return advice('spool', finding, `free some space, or lower INGEST_SPOOL_BYTES_MAX (now ${inMib(bytesMax)})`);
}

function checkContents(folder: string, contents: SpoolContents, settings: Settings, nowMs: number): Check[] {
  const { events, bytes, oldestMs, damaged, refused } = contents;
  const checks: Check[] = [];
  if (oldestMs !== null) {
    const minutes = Math.max(0, Math.round((nowMs - oldestMs) / 60_000));
    checks.push(
      advice(
        'spool_in_use',
        `${events} events (${inMib(bytes)} of at most ${inMib(settings.INGEST_SPOOL_BYTES_MAX)}) wait in ${folder}, the oldest for ${minutes} min`,
        'they are stored by themselves when Postgres commits again; until then see the checks of the database',
      ),
    );
  }
  if (damaged + refused > 0)
    checks.push(
      advice(
        'spool_files_kept',
        `${folder} has ${damaged} damaged files and ${refused} events that the database refuses`,
        'the log states why (spool_damaged, spool_event_refused); move the files away when you have looked at them',
      ),
    );
  return checks;
}

/** @param contents null: not readable */
function checkOther(folder: string, contents: SpoolContents | null): Check[] {
  if (contents === null || contents.oldestMs === null) return [];
  return [
    advice(
      'spool_of_another',
      `${contents.events} events of another installation wait in ${folder}`,
      `nothing, if that machine will run again; otherwise run: ${weirCommand()} spool drain ${folder}`,
    ),
  ];
}
