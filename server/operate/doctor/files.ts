/** Checks of DATA_DIR, its disk and its secrets key, of the user of the serving processes, and of INGEST_SPOOL_DIR. */
import { access, constants, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { weirCommand } from '../../base/command/name.ts';
import { dataDirMode } from '../../base/files/data-dir.ts';
import type { Settings } from '../../base/settings/read.ts';
import { HOUR_MS } from '../../base/time/durations.ts';
import { advice, broken, brokenBy, type CheckTable, type Finding, ok } from '../../model/check.ts';
import { OperatorError } from '../../model/fault.ts';
import { diskPlaces } from '../../model/machines.ts';
import { counted, inGib, inMib } from '../../model/words.ts';
import { type SpoolContents, SpoolReader } from '../../receive/spool/contents.ts';
import { isFull, realDisk } from '../../receive/spool/disk.ts';
import { foldersIn, ownFolder } from '../../receive/spool/folder.ts';
import { SpoolWriter } from '../../receive/spool/writer.ts';
import { checkWalkable, EmbeddedPostgresError } from '../../store/embedded/account.ts';
import { loadSecretsKeys, type SecretsKeys } from '../../store/secrets/keys.ts';
import { checkArchive } from '../backup/write.ts';
import { TMPFS_MAGIC } from '../load/environment.ts';
import { findServingUser, servingUserName } from '../primary/serving-user.ts';

interface Context {
  settings: Settings;
  nowMs: () => number;
}

export const fileChecks = {
  /** Names the user of the serving processes when this user starts Weir. */
  async serving_user({ settings }) {
    try {
      const user = await findServingUser(settings);
      if (user !== null || process.getuid?.() !== 0) return ok(`Weir serves as the user ${servingUserName(user)}`);
    } catch (error) {
      return brokenBy(error as OperatorError, 'start Weir as another user');
    }
    return advice(
      'SERVE_AS_ROOT is true: a fault in a process that serves senders is a fault of root',
      'remove SERVE_AS_ROOT, and restart Weir',
    );
  },
  /** Whether Weir can write to it, and the Postgres account can traverse it. */
  async data_dir({ settings }) {
    const { DATA_DIR: directory } = settings;
    const existing = await nearestDirectory(directory);
    try {
      if (!(await stat(existing)).isDirectory())
        return broken(`DATA_DIR ${existing} is not a directory`, 'move that file away, or set another DATA_DIR');
      await access(existing, constants.R_OK | constants.W_OK | constants.X_OK);
      if (settings.database.kind === 'embedded' && process.getuid?.() === 0) {
        const owner = await stat(join(directory, 'postgres')).catch(() => null);
        // No user has uid -1: without an owner yet, every directory on the path must be open to all users.
        await checkWalkable(existing, { uid: owner?.uid ?? -1, gid: owner?.gid ?? -1, name: 'weir' });
      }
    } catch (error) {
      if (error instanceof EmbeddedPostgresError) return brokenBy(error, 'set another DATA_DIR');
      return broken(
        `DATA_DIR ${directory} is not writable: ${(error as NodeJS.ErrnoException).code}`,
        `make the user that Weir runs as the owner of ${existing}, or set another DATA_DIR`,
      );
    }
    return ok(`${directory} is writable${existing === directory ? '' : ' (it will be created at the first start)'}`);
  },
  /** Other users who can open DATA_DIR can hold Weir's locks; those who can write to it can replace its files. */
  async data_dir_mode({ settings: { DATA_DIR: directory } }) {
    const found = await stat(directory).catch(() => null);
    const allowed = dataDirMode();
    if (found === null || !found.isDirectory() || (found.mode & 0o777 & ~allowed) === 0) return null;
    const mode = (found.mode & 0o777).toString(8).padStart(4, '0');
    const fix = `chmod ${allowed.toString(8)} ${directory} (or set DATA_DIR to a directory that only Weir uses)`;
    if ((found.mode & 0o022) !== 0) return broken(`other users can replace files in ${directory} (mode ${mode})`, fix);
    return advice(`other users can read ${directory} and hold its locks (mode ${mode})`, fix);
  },
  async archive_dir({ settings: { ARCHIVE_DIR: directory } }) {
    if (directory === undefined) return null;
    return checkArchive(directory).then(
      () => ok(`${directory} is writable`),
      (error: OperatorError) => brokenBy(error, 'set another ARCHIVE_DIR'),
    );
  },
  disk: async ({ settings }) => checkDisks(await nearestDirectory(settings.DATA_DIR), settings),
  spool: (context) => checkSpool(context),
  secrets_key: async ({ settings }) => (await readKey(settings)).found,
} satisfies CheckTable<Context>;

/** The directory itself, or its nearest ancestor that exists. */
async function nearestDirectory(path: string): Promise<string> {
  for (let step = path; ; step = dirname(step)) {
    const found = await stat(step).catch((error: NodeJS.ErrnoException) => error);
    if (!(found instanceof Error) || found.code === 'EACCES' || step === '/') return step;
  }
}

/** The key of stored secrets; never creates one. `keys` is null when there is no key yet or it cannot be used. */
export async function readKey(settings: Settings): Promise<{ found: Finding; keys: SecretsKeys | null }> {
  if (settings.SECRETS_KEY !== undefined) return { found: ok('SECRETS_KEY is set'), keys: loadSecretsKeys(settings) };
  const path = join(settings.DATA_DIR, 'secrets.key');
  const file = await stat(path).catch(() => null);
  if (file === null) return { found: ok(`${path} will be created at the first start`), keys: null };
  try {
    const keys = loadSecretsKeys(settings);
    if ((file.mode & 0o077) === 0) return { found: ok(`${path} holds the key; back it up with the database`), keys };
    return { found: broken(`users other than its owner can access ${path}`, `chmod 600 ${path}`), keys };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { found: brokenBy(error, 'restore it from a backup'), keys: null };
  }
}

const PROBLEM_BYTES = 2 ** 29;

export interface FileSystem {
  /** Device number of the file system. */
  device: number;
  freeBytes: number;
}

/**
 * Returns one finding for each file system.
 * @param existing DATA_DIR, or its nearest ancestor that exists.
 * @param read returns null when the directory does not exist.
 */
export async function checkDisks(
  existing: string,
  { database }: Pick<Settings, 'database'>,
  read: (path: string) => Promise<FileSystem | null> = readDisk,
) {
  const embedded = database.kind === 'embedded';
  const pgdata = join(existing, 'postgres');
  const paths = embedded ? [join(pgdata, 'pg_wal'), pgdata, existing] : [existing];
  const found = new Map<number, Finding>();
  for (const path of paths) {
    const disk = await read(path);
    if (disk !== null && !found.has(disk.device)) found.set(disk.device, judgeDisk(path, disk.freeBytes, embedded));
  }
  return [...found.values()];
}

function judgeDisk(path: string, freeBytes: number, embedded: boolean) {
  const finding = `${inGib(freeBytes)} are free at ${path}`;
  const consequence = embedded
    ? 'when the disk is full, every webhook request is answered 503'
    : 'when the disk is full, keys and logs are lost';
  const fix = `free some space, or use a larger disk: ${consequence}`;
  if (freeBytes < PROBLEM_BYTES) return broken(finding, fix);
  return freeBytes < diskPlaces[embedded ? 'postgres' : 'data'] ? advice(finding, fix) : ok(finding);
}

async function readDisk(path: string): Promise<FileSystem | null> {
  try {
    const [{ dev }, { bavail, bsize }] = await Promise.all([stat(path), statfs(path)]);
    return { device: dev, freeBytes: bavail * bsize };
  } catch {
    return null;
  }
}

/** Whether the directory exists, can be written and flushed, and has room, and what the spools in it hold. Never rejects. */
async function checkSpool({ settings, nowMs }: Context) {
  const { INGEST_SPOOL_DIR: directory, DATA_DIR, INGEST_SPOOL_BYTES_MAX: bytesMax } = settings;
  if (directory === undefined)
    return advice(
      'INGEST_SPOOL_DIR is unset: while Postgres is away, webhook requests are answered 503',
      'set it to a directory on a local disk, unless every sender repeats what is refused',
    );
  if ((await stat(directory).catch(() => null)) === null) return ok(`${directory} will be created at the first start`);
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
    const found = [await checkRoom(directory, bytesMax)];
    if (own !== null) found.push(...judgeSpool(own, await read(own), bytesMax, nowMs()));
    for (const folder of await foldersIn(directory))
      if (folder !== own) found.push(...judgeOther(folder, await read(folder).catch(() => null)));
    return found;
  } catch (error) {
    return broken(
      `the spool ${own ?? directory} cannot be written and flushed: ${(error as Error).message}`,
      isFull(error)
        ? `free space on the disk of ${directory}, or enlarge it: while it is full and Postgres is away, webhook requests are answered 503`
        : 'make the user that Weir runs as its owner, or set INGEST_SPOOL_DIR to a directory on a local disk',
    );
  }
}

const read = (folder: string) => new SpoolReader(realDisk, folder).read();

async function checkRoom(directory: string, bytesMax: number) {
  const { bavail, bsize, type } = await statfs(directory);
  if (type === TMPFS_MAGIC)
    return broken(
      `INGEST_SPOOL_DIR ${directory} is in memory (tmpfs): a power cut loses events that were answered 202`,
      'set it to a directory on a disk',
    );
  const finding = `${directory} can be written and flushed; ${inMib(bavail * bsize)} are free`;
  if (bavail * bsize >= bytesMax) return ok(finding);
  return advice(finding, `free some space, or lower INGEST_SPOOL_BYTES_MAX (now ${inMib(bytesMax)})`);
}

function judgeSpool(folder: string, contents: SpoolContents, bytesMax: number, nowMs: number) {
  const { events, bytes, oldestMs, damaged, refused } = contents;
  const minutes = Math.max(0, Math.round((nowMs - (oldestMs ?? nowMs)) / 60_000));
  const waiting = advice(
    `${counted(events, 'event')} (${inMib(bytes)} of at most ${inMib(bytesMax)}) ${events === 1 ? 'waits' : 'wait'} in ${folder}, the oldest for ${minutes} min`,
    'they are stored by themselves when Postgres commits again; until then see the checks of the database',
  );
  const kept = advice(
    `${folder} has ${counted(damaged, 'damaged file')} and ${counted(refused, 'event')} that the database refuses`,
    'the log states why (spool_damaged, spool_event_refused); move the files away when you have looked at them',
  );
  return [
    ...(oldestMs === null ? [] : [{ name: 'spool_in_use', ...waiting }]),
    ...(damaged + refused === 0 ? [] : [{ name: 'spool_files_kept', ...kept }]),
  ];
}

/** @param contents null: not readable */
function judgeOther(folder: string, contents: SpoolContents | null) {
  if (contents === null || contents.oldestMs === null) return [];
  const waiting = advice(
    `${counted(contents.events, 'event')} of another installation ${contents.events === 1 ? 'waits' : 'wait'} in ${folder}`,
    `nothing, if that machine will run again; otherwise run: ${weirCommand()} spool drain ${folder}`,
  );
  return [{ name: 'spool_of_another', ...waiting }];
}
