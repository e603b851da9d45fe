/** Free space where Weir writes: DATA_DIR, and the embedded database when it is on another file system. */
import { stat, statfs } from 'node:fs/promises';
import { join } from 'node:path';
import type { Settings } from '../settings/read.ts';
import { advice, type Check, ok, problem } from './check.ts';

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
