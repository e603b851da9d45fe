/** Checks of DATA_DIR, its disk, and its secrets key. */
import { access, constants, stat, statfs } from 'node:fs/promises';
import { dirname, join } from 'node:path';
import { dataDirMode } from '../../base/files/data-dir.ts';
import type { Settings } from '../../base/settings/read.ts';
import { advice, type Check, ok, problem, problemOf } from '../../model/check.ts';
import { OperatorError } from '../../model/fault.ts';
import { checkWalkable } from '../../store/embedded/account.ts';
import { EmbeddedPostgresError } from '../../store/embedded/error.ts';
import { loadSecretsKeys, type SecretsKeys } from '../../store/secrets/keys.ts';

/** Checks that Weir can write to DATA_DIR, that the Postgres account can traverse it, and that its disk has free space. */
export async function checkDataDir(settings: Settings): Promise<Check[]> {
  const { DATA_DIR: directory } = settings;
  const existing = await nearestDirectory(directory);
  const missing = existing === directory ? '' : ' (it will be created at the first start)';
  try {
    if (!(await stat(existing)).isDirectory())
      return [
        problem('data_dir', `DATA_DIR ${existing} is not a directory`, 'move that file away, or set another DATA_DIR'),
      ];
    await access(existing, constants.R_OK | constants.W_OK | constants.X_OK);
    if (settings.database.kind === 'embedded' && process.getuid?.() === 0) {
      const owner = await stat(join(directory, 'postgres')).catch(() => null);
      // No user has uid -1: without an owner yet, every directory on the path must be open to all users.
      await checkWalkable(existing, { uid: owner?.uid ?? -1, gid: owner?.gid ?? -1, name: 'weir' });
    }
  } catch (error) {
    if (error instanceof EmbeddedPostgresError) return [problemOf('data_dir', error, 'set another DATA_DIR')];
    return [
      problem(
        'data_dir',
        `DATA_DIR ${directory} is not writable: ${(error as NodeJS.ErrnoException).code}`,
        `make the user that Weir runs as the owner of ${existing}, or set another DATA_DIR`,
      ),
    ];
  }
  const checks = [ok('data_dir', `${directory} is writable${missing}`)];
  if (existing === directory) checks.push(...checkMode(directory, (await stat(directory)).mode));
  return [...checks, ...(await checkDisks(existing, settings))];
}

/** Other users who can open DATA_DIR can hold Weir's locks; those who can write to it can replace its files. */
function checkMode(directory: string, mode: number): Check[] {
  const allowed = dataDirMode();
  if ((mode & 0o777 & ~allowed) === 0) return [];
  const found = (mode & 0o777).toString(8).padStart(4, '0');
  const fix = `chmod ${allowed.toString(8)} ${directory} (or set DATA_DIR to a directory that only Weir uses)`;
  if ((mode & 0o022) !== 0)
    return [problem('data_dir_mode', `other users can replace files in ${directory} (mode ${found})`, fix)];
  return [advice('data_dir_mode', `other users can read ${directory} and hold its locks (mode ${found})`, fix)];
}

/** Checks the key of stored secrets; never creates one. `keys` is null when there is no key yet or it cannot be used. */
export async function checkKey(settings: Settings): Promise<{ check: Check; keys: SecretsKeys | null }> {
  const name = 'secrets_key';
  if (settings.SECRETS_KEY !== undefined)
    return { check: ok(name, 'SECRETS_KEY is set'), keys: loadSecretsKeys(settings) };
  const path = join(settings.DATA_DIR, 'secrets.key');
  const file = await stat(path).catch(() => null);
  if (file === null) return { check: ok(name, `${path} will be created at the first start`), keys: null };
  try {
    const keys = loadSecretsKeys(settings);
    if ((file.mode & 0o077) !== 0)
      return { check: problem(name, `users other than its owner can access ${path}`, `chmod 600 ${path}`), keys };
    return { check: ok(name, `${path} holds the key; back it up with the database`), keys };
  } catch (error) {
    if (!(error instanceof OperatorError)) throw error;
    return { check: problemOf(name, error, 'restore it from a backup'), keys: null };
  }
}

/** The directory itself, or its nearest ancestor that exists. */
async function nearestDirectory(path: string): Promise<string> {
  for (let step = path; ; step = dirname(step)) {
    const found = await stat(step).catch((error: NodeJS.ErrnoException) => error);
    if (!(found instanceof Error) || found.code === 'EACCES' || step === '/') return step;
  }
}

/** The embedded server keeps up to max_wal_size (4 GB) of WAL beside the data. */
const DATABASE_ADVICE_BYTES = 5 * 2 ** 30;
/** A DATA_DIR without a database contains a key, logs and locks. */
const FILES_ADVICE_BYTES = 2 ** 30;
const PROBLEM_BYTES = 2 ** 29;

export interface Disk {
  /** Device number of the file system. */
  device: number;
  freeBytes: number;
}

/**
 * Returns one check for each file system.
 * @param existing DATA_DIR, or its nearest ancestor that exists.
 * @param read returns null when the directory does not exist.
 */
export async function checkDisks(
  existing: string,
  { database }: Pick<Settings, 'database'>,
  read: (path: string) => Promise<Disk | null> = readDisk,
): Promise<Check[]> {
  const embedded = database.kind === 'embedded';
  const pgdata = join(existing, 'postgres');
  const paths = embedded ? [join(pgdata, 'pg_wal'), pgdata, existing] : [existing];
  const checks = new Map<number, Check>();
  for (const path of paths) {
    const disk = await read(path);
    if (disk !== null && !checks.has(disk.device)) checks.set(disk.device, checkDisk(path, disk.freeBytes, embedded));
  }
  return [...checks.values()];
}

function checkDisk(path: string, freeBytes: number, embedded: boolean): Check {
  const finding = `${(freeBytes / 2 ** 30).toFixed(1)} GiB are free at ${path}`;
  const consequence = embedded
    ? 'when the disk is full, every webhook request is answered 503'
    : 'when the disk is full, keys and logs are lost';
  const fix = `free some space, or use a larger disk: ${consequence}`;
  if (freeBytes < PROBLEM_BYTES) return problem('disk', finding, fix);
  const isLow = freeBytes < (embedded ? DATABASE_ADVICE_BYTES : FILES_ADVICE_BYTES);
  return isLow ? advice('disk', finding, fix) : ok('disk', finding);
}

async function readDisk(path: string): Promise<Disk | null> {
  try {
    const [{ dev }, { bavail, bsize }] = await Promise.all([stat(path), statfs(path)]);
    return { device: dev, freeBytes: bavail * bsize };
  } catch {
    return null;
  }
}
