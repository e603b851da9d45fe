/** DATA_DIR: its permissions, and the lock by which a primary owns it. */
import { chmodSync, existsSync, mkdirSync, statSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { OperatorError } from '../../model/fault.ts';
import { flushDirectory } from './durable-file.ts';
import { acquireLock, describeHolder, type Lock, LockError } from './lock.ts';

/**
 * Permission bits of a new DATA_DIR: owner only. Under root the embedded Postgres runs as another user, which must reach
 * DATA_DIR/postgres: `--x` permits that without permitting others to list, read or lock the directory.
 */
export function dataDirMode(): number {
  return process.getuid?.() === 0 ? 0o711 : 0o700;
}

/**
 * Creates a directory and its parents; they survive a power cut. Node's option `recursive` is not used: it never returns below /proc, where a
 * new directory is refused as if its parent were missing. Throws errors of fs.
 */
export function createDirectories(path: string): void {
  if (existsSync(path)) return;
  createDirectories(dirname(path));
  try {
    mkdirSync(path);
    flushName(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
  }
}

/** Flushes the name of a new directory. Some file systems cannot do it, and this user may not open the parent: both are ignored. */
function flushName(path: string): void {
  try {
    flushDirectory(dirname(path));
  } catch (error) {
    if (!/^(EACCES|EPERM|EINVAL|ENOTSUP)$/.test((error as NodeJS.ErrnoException).code!)) throw error;
  }
}

/**
 * Creates DATA_DIR if missing. Leaves an existing one unchanged (`weir doctor` reports wide permissions). Throws errors of fs, or an Error if
 * the path is not a directory.
 */
export function createDataDir(path: string): void {
  createDirectories(dirname(path));
  try {
    mkdirSync(path, { mode: 0o700 });
    // chmod is not subject to the umask.
    chmodSync(path, dataDirMode());
    flushName(path);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'EEXIST') throw error;
    if (!statSync(path).isDirectory()) throw new Error(`${path} is not a directory`);
  }
}

/** Path of the generated key in a DATA_DIR. */
export function keyPath(dataDir: string): string {
  return join(dataDir, 'secrets.key');
}

/** Another running Weir holds the lock of DATA_DIR. */
export class DataDirInUseError extends OperatorError {
  /** @param holder see describeHolder */
  constructor(dataDir: string, holder: string) {
    super(
      `Another Weir is running with DATA_DIR ${dataDir}: ${holder}`,
      'stop it first, or set another DATA_DIR and PORT',
    );
  }
}

/** Takes the lock by which a primary owns its DATA_DIR; creates the directory if missing. Throws DataDirInUseError or LockError. */
export async function lockDataDir(dataDir: string): Promise<Lock> {
  try {
    createDataDir(dataDir);
  } catch (error) {
    throw new LockError(`DATA_DIR ${dataDir} cannot be created: ${(error as Error).message}`);
  }
  const lock = await acquireLock(dataDir, 'exclusive', 0);
  if (lock === null) throw new DataDirInUseError(dataDir, await describeHolder(dataDir));
  return lock;
}

/** A link to the socket of one serving process, which the primary replaces when that process ends. */
export function commandSocket(dataDir: string): string {
  return join(dataDir, 'weir.sock');
}

/** Path of the socket of one serving process. @param folder as RunFolder created it */
export function processSocket(folder: string, pid: number): string {
  return join(folder, `${pid}.sock`);
}
