/**
 * Folders of the spool: INGEST_SPOOL_DIR has one for each installation, so that machines may share it. The name of the folder is kept in
 * DATA_DIR. Only its installation drains the folder: a running Weir holds a lock on it.
 */
import { randomBytes } from 'node:crypto';
import { closeSync, constants, fchmodSync, fchownSync, openSync, readFileSync } from 'node:fs';
import { readdir } from 'node:fs/promises';
import { hostname } from 'node:os';
import { join } from 'node:path';
import { createDirectories } from '../../base/files/data-dir.ts';
import { replaceFile } from '../../base/files/durable-file.ts';
import { acquireLock, describeHolder, type Lock } from '../../base/files/lock.ts';
import { OperatorError } from '../../model/fault.ts';

/** INGEST_SPOOL_DIR cannot be used. */
class SpoolError extends OperatorError {}

const NAME_FILE = 'spool-folder';
const nameShape = /^[\w.-]{1,100}$/;

/** Returns the folder of this installation. Null: it has none yet. */
export function ownFolder(spoolDir: string, dataDir: string): string | null {
  try {
    const name = readFileSync(join(dataDir, NAME_FILE), 'utf8').trim();
    return nameShape.test(name) && !name.startsWith('.') ? join(spoolDir, name) : null;
  } catch {
    return null;
  }
}

/**
 * Creates the folder of this installation if needed, and takes its lock. Throws SpoolError.
 * @param owner the user of the serving processes; null: the current one.
 */
export async function claimFolder(
  spoolDir: string,
  dataDir: string,
  owner: { uid: number; gid: number } | null,
): Promise<{ folder: string; lock: Lock }> {
  const folder = createFolder(spoolDir, dataDir, owner);
  return { folder, lock: await lockFolder(folder) };
}

/** Takes the lock of a folder. Throws SpoolError when it is held. */
export async function lockFolder(folder: string): Promise<Lock> {
  const lock = await acquireLock(folder, 'exclusive', 0);
  if (lock === null)
    throw new SpoolError(`The spool ${folder} is in use by ${await describeHolder(folder)}`, 'stop that Weir first');
  return lock;
}

function createFolder(spoolDir: string, dataDir: string, owner: { uid: number; gid: number } | null): string {
  try {
    createDirectories(spoolDir);
    const folder = ownFolder(spoolDir, dataDir) ?? join(spoolDir, newName(dataDir));
    createDirectories(folder);
    makePrivate(folder, owner);
    return folder;
  } catch (error) {
    throw new SpoolError(
      `INGEST_SPOOL_DIR ${spoolDir} cannot be used: ${(error as Error).message}`,
      'make the user that Weir runs as its owner, or set another directory',
    );
  }
}

/**
 * Segments contain request bodies. The folder is opened first, so that it cannot be replaced in between: the directory above may belong to
 * another user, who could put a symbolic link there, and a directory of root would get a new owner. Throws errors of fs.
 */
function makePrivate(folder: string, owner: { uid: number; gid: number } | null): void {
  const opened = openSync(folder, constants.O_RDONLY | constants.O_DIRECTORY | constants.O_NOFOLLOW);
  try {
    fchmodSync(opened, 0o700);
    if (owner !== null) fchownSync(opened, owner.uid, owner.gid);
  } finally {
    closeSync(opened);
  }
}

function newName(dataDir: string): string {
  const host =
    hostname()
      .replace(/[^\w-]/g, '-')
      .slice(0, 60) || 'host';
  const name = `${host}-${randomBytes(4).toString('hex')}`;
  replaceFile(join(dataDir, NAME_FILE), `${name}\n`, 0o644);
  return name;
}

/** Paths of the installations' folders in a spool directory. Rejects when the directory cannot be read. */
export async function foldersIn(spoolDir: string): Promise<string[]> {
  const entries = await readdir(spoolDir, { withFileTypes: true });
  return entries
    .filter((entry) => entry.isDirectory() && nameShape.test(entry.name) && entry.name !== 'lost+found')
    .map(({ name }) => join(spoolDir, name))
    .sort();
}
