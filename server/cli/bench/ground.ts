/** Test bed of a bench: a temporary folder, and tables in the same state for every contestant. */
import { chmod, mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '../../db/pool.ts';

/** Type number of tmpfs, Linux' file system in memory (linux/magic.h). */
const TMPFS_MAGIC = 0x01021994;

/** Creates a folder for a database; the caller removes it. The path is short, because a socket path is limited to 107 bytes. */
export async function makeDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-bench-'));
  // When the bench runs as root, Postgres runs under another account, which needs search permission on the folder.
  await chmod(directory, 0o711);
  return directory;
}

/** True when the temporary folder is in memory, where fsync costs nothing. */
export async function isInMemory(): Promise<boolean> {
  return (await statfs(tmpdir())).type === TMPFS_MAGIC;
}

/** Empties a table and runs a checkpoint, so that no contestant pays for the writes of the previous one. */
export async function freshStart(database: Database, table: string): Promise<void> {
  await database.query({ text: `truncate ${table}` });
  await database.query({ text: 'checkpoint' });
}
