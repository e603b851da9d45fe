/** What a bench stands on: a folder that goes with it, and tables that every contestant finds alike. */
import { chmod, mkdtemp, statfs } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import type { Database } from '../../db/pool.ts';

/** Of Linux' file system in memory (linux/magic.h). */
const TMPFS_MAGIC = 0x01021994;

/** Makes a folder for a database; whoever makes it removes it. Its path is short: a socket's name must fit into 107 bytes. */
export async function makeDirectory(): Promise<string> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-bench-'));
  // Run by root, Postgres has another account, which must be able to walk through.
  await chmod(directory, 0o711);
  return directory;
}

/** Whether that folder would stand in memory, where fsync costs nothing. */
export async function isInMemory(): Promise<boolean> {
  return (await statfs(tmpdir())).type === TMPFS_MAGIC;
}

/** Empties a table and writes out what is owed to the disk, so that nobody pays for the one before. */
export async function freshStart(database: Database, table: string): Promise<void> {
  await database.query({ text: `truncate ${table}` });
  await database.query({ text: 'checkpoint' });
}
