/** `weir backup`: an archive of one snapshot of the database, made while Weir serves. */
import { lstat, rename, rm, stat } from 'node:fs/promises';
import { dirname } from 'node:path';
import type { Readable } from 'node:stream';
import { text } from 'node:stream/consumers';
import { flushPath } from '../../base/files/durable-file.ts';
import { acquireLock, type Lock } from '../../base/files/lock.ts';
import { DAY_MS } from '../../base/time/durations.ts';
import type { Database, Queries, Query } from '../../store/connect/pool.ts';
import { isoText } from '../../store/sql.ts';
import { type ArchiveFile, readArchive } from './archive-file.ts';
import { appendRecord, type BackupRecord, readContents, tablesOf } from './record.ts';
import { BackupError, findTools, runTool, type Tools } from './tools.ts';

/** The fastest level of gzip: a backup runs beside ingest. */
const COMPRESSION = 1;
/** pg_dump gives up when a migration holds a table for longer. */
const LOCK_WAIT_MS = 60_000;

export interface TableWatcher {
  /** Called before the first table with the tables and their weights (pages or rows). */
  begin(weights: ReadonlyMap<string, number>): void;
  /** The data of this table is being copied. */
  table(name: string): void;
}

interface BackupOrder {
  conninfo: string;
  database: Database;
  path: string;
  /** Replaces an existing file. */
  overwrite: boolean;
  /** Key that authenticates the backup. With null, the backup is not authenticated, and a restore needs --trust-file. */
  key: Buffer | null;
  watcher: TableWatcher;
  signal?: AbortSignal;
}

/**
 * Writes the archive to a temporary file, reads it back, appends the record, and renames the file to `path` (mode 0600). A failure
 * leaves no file and no change. Throws BackupError.
 */
export async function backUp(order: BackupOrder): Promise<BackupRecord> {
  const { path, database } = order;
  if (!order.overwrite) await refuseExisting(path);
  const temporary = `${path}.unfinished`;
  const [tools] = await findTools(await serverMajor(database));
  const lock = await ownFile(temporary);
  try {
    const { archive: _, ...record } = await dump(order, tools!, temporary);
    const archive = await readBack(tools!, temporary, Object.keys(record.contents.tables), order.signal);
    const complete = { ...record, archive };
    await appendRecord(temporary, complete, order.key);
    if (!order.overwrite) await refuseExisting(path);
    await rename(temporary, path);
    await flushPath(dirname(path));
    return complete;
  } catch (error) {
    await rm(temporary, { force: true });
    throw error;
  } finally {
    await lock.release();
  }
}

/** Major version of the server, such as 15. */
export async function serverMajor({ query }: Queries): Promise<number> {
  const [row] = await query<{ major: number }>({
    text: `select current_setting('server_version_num')::int / 10000 as major`,
  });
  return row!.major;
}

/**
 * pg_dump and the counts read one exported snapshot. The tables are locked (access share): retention drops no partition between list and
 * dump.
 */
function dump(
  { conninfo, database, watcher, signal }: BackupOrder,
  tools: Tools,
  temporary: string,
): Promise<BackupRecord> {
  return database.transaction(async (query) => {
    await query({ text: 'set transaction isolation level repeatable read, read only' });
    const tables = await tablesOf(query);
    if (!tables.some(({ name }) => name === 'schema_migrations'))
      throw new BackupError('This database contains no Weir', 'check DATABASE_URL or the POSTGRES_* settings');
    watcher.begin(new Map(tables.map(({ name, pages }) => [name, pages])));
    const names = tables.map(({ name }) => `"${name}"`).join(', ');
    await query({ text: `lock table ${names} in access share mode`, timeoutMs: LOCK_WAIT_MS });
    const snapshot = await exportSnapshot(query);
    const flags = [
      '--format=custom',
      `--compress=${COMPRESSION}`,
      `--snapshot=${snapshot.id}`,
      `--lock-wait-timeout=${LOCK_WAIT_MS}`,
      // Schemas of cells on Citus.
      '--exclude-schema=weir_cell_*',
      '--verbose',
      `--file=${temporary}`,
    ];
    const onLine = (line: string) => reportTable(line, watcher);
    // The transaction must stay open until both have ended.
    const [dumped, counted] = await Promise.allSettled([
      runTool(tools, 'pg_dump', flags, { conninfo, onLine, signal }),
      readContents(query),
    ]);
    if (dumped.status === 'rejected') throw dumped.reason;
    if (counted.status === 'rejected') throw counted.reason;
    const { snapshot_at, server_version } = snapshot;
    return { format: 1, snapshot_at, server_version, contents: counted.value, archive: { bytes: 0, sha256: '' } };
  });
}

async function exportSnapshot(query: Query) {
  const [row] = await query<{ id: string; snapshot_at: string; server_version: string }>({
    text: `select pg_export_snapshot() as id, ${isoText('clock_timestamp()')} as snapshot_at,
             current_setting('server_version') as server_version`,
    timeoutMs: DAY_MS,
  });
  return row!;
}

/** Lines of pg_dump and pg_restore that name the table whose data follows. */
export function reportTable(line: string, watcher: TableWatcher): void {
  const name = /(?:dumping contents of|processing data for) table "(?:[^"]*\.)?([^".]+)"/.exec(line)?.[1];
  if (name !== undefined) watcher.table(name);
}

/** Lists the archive, which must contain the data of every table, then decompresses all of it. Returns its size and hash. */
async function readBack(
  tools: Tools,
  path: string,
  tables: readonly string[],
  signal?: AbortSignal,
): Promise<BackupRecord['archive']> {
  const archive = await readArchive(path);
  try {
    const listed = new Set(await listTables(tools, archive));
    const missing = tables.filter((name) => !listed.has(name));
    if (missing.length > 0) throw new BackupError(`The backup lacks the tables ${missing.join(', ')}`, 'try again');
    await runTool(tools, 'pg_restore', ['--file=/dev/null'], { write: archive.write, signal });
    return { bytes: archive.bytes, sha256: archive.sha256 };
  } finally {
    await archive.close();
  }
}

/** Names of the tables whose data the archive contains. Throws BackupError if this version of pg_restore cannot read it. */
export async function listTables(tools: Tools, archive: ArchiveFile): Promise<string[]> {
  const list = await outputOf(tools, ['--list'], archive);
  return [...list.matchAll(/ TABLE DATA \S+ (\S+) /g)].map(([, name]) => name!);
}

/** What pg_restore prints of an archive. */
export async function outputOf(tools: Tools, flags: readonly string[], { write }: ArchiveFile): Promise<string> {
  let output = '';
  const read = async (stdout: Readable) => {
    output = await text(stdout);
  };
  await runTool(tools, 'pg_restore', flags, { write, read });
  return output;
}

/** Throws BackupError when a file is at the path, or when that cannot be determined. */
export async function refuseExisting(path: string): Promise<void> {
  const found = await stat(path).catch((error: NodeJS.ErrnoException) => error);
  if (!(found instanceof Error)) throw new BackupError(`${path} exists`, 'name another file, or give --overwrite');
  if (found.code !== 'ENOENT') throw new BackupError(`${path} cannot be written: ${found.message}`);
}

/**
 * Creates and locks an empty file with mode 0600, which pg_dump then writes. A file that a killed backup left is replaced, since the pg_dump
 * of that backup may still write to it.
 */
async function ownFile(path: string): Promise<Lock> {
  const lock = await acquireLock(path, 'exclusive', 0).catch((error: Error) => {
    throw new BackupError(`${path} cannot be written: ${error.message}`);
  });
  if (lock === null) throw new BackupError(`Another backup is writing ${path}`, 'wait for it, or name another file');
  const found = await lstat(path);
  const isOwn = found.isFile() && found.nlink === 1 && found.uid === process.getuid!();
  if (isOwn && found.size === 0) return lock;
  if (isOwn) await rm(path);
  await lock.release();
  if (isOwn) return ownFile(path);
  throw new BackupError(`${path} belongs to another user`, 'remove it, or write the backup to a directory of yours');
}
