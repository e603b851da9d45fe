/**
 * The settings of the embedded server, in DATA_DIR/postgres.conf, and its spare WAL files. The file is rewritten at each start; `alter system`
 * (postgresql.auto.conf) overrides it. The server keeps only WAL files that it once had: a commit that needs a new file waits 40 to 140 ms
 * until the file is written (bench/NOTES.md).
 */
import { readFileSync } from 'node:fs';
import { statfs } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { replaceFile } from '../../base/files/durable-file.ts';
import type { Database } from '../connect/pool.ts';

/** Only part of the socket's name; there is no TCP listener. */
export const SOCKET_PORT = 5432;
/** Size of the WAL files that are kept for reuse: what 1,400,000 events of 1 KiB write. `weir doctor` recommends it for other servers. */
export const WAL_POOL_MB = 2_048;

function settings(maxConnections: number): [name: string, value: string, why: string][] {
  return [
    ['listen_addresses', "''", 'no TCP port at all'],
    ['port', String(SOCKET_PORT), 'names the socket file'],
    ['unix_socket_directories', "'.'", 'the data directory, which only its owner (and root) can enter'],
    ['unix_socket_permissions', '0700', ''],
    ['max_connections', String(maxConnections), 'what the processes of Weir may open in all'],
    ['cluster_name', "'weir'", 'shown by ps'],
    ['fsync', 'on', 'a 202 means: on the disk'],
    ['synchronous_commit', 'on', 'likewise'],
    ['full_page_writes', 'on', 'survives a power cut in the middle of a page'],
    ['shared_buffers', '256MB', 'newest events and the indexes; the kernel caches the rest'],
    ['wal_buffers', '16MB', 'several group commits of 1 MiB bodies'],
    ['max_wal_size', '4GB', 'few checkpoints under a flood of inserts: each makes full page images again'],
    ['min_wal_size', `${WAL_POOL_MB}MB`, 'reuse log files rather than make them under load'],
    ['checkpoint_timeout', '15min', 'likewise'],
    ['checkpoint_completion_target', '0.9', 'spread the writing'],
    ['wal_compression', 'off', 'bodies are toasted compressed already; the cores are needed elsewhere'],
    ['default_toast_compression', 'pglz', "the package's build has no lz4"],
    ['autovacuum', 'on', 'deliveries are updated all the time'],
    ['jit', 'off', 'every statement is short'],
    ['log_min_messages', 'warning', ''],
    ['log_error_verbosity', 'terse', 'no DETAIL and CONTEXT: they would quote rows, and rows are payloads'],
    ['log_checkpoints', 'off', ''],
    ['log_line_prefix', "'%m [%p] '", ''],
    ['timezone', "'UTC'", ''],
    ['log_timezone', "'UTC'", ''],
    ['client_encoding', "'UTF8'", ''],
    ['lc_messages', "'C'", 'what Weir and people search the log for'],
  ];
}

/** Writes the settings of the server. @param path of a file that only the user that starts the server can write */
export function writeSettings(path: string, maxConnections: number): void {
  const lines = settings(maxConnections).map(([name, value, why]) => `${name} = ${value}${why && ` # ${why}`}\n`);
  const head = '# Written by Weir at each start. For settings of your own use: alter system set NAME = VALUE\n';
  replaceFile(path, head + lines.join(''), 0o644);
}

/** Reads max_connections from the settings that were written last. */
export function writtenConnections(path: string): number {
  return Number(/^max_connections = (\d+)/m.exec(readFileSync(path, 'utf8'))![1]);
}

/** The WAL files may take this share of the space that would be free without them. */
const DISK_SHARE = 0.1;
/** Time without other writes before a file is created. */
const QUIET_MS = 200;
/** WAL that is written within QUIET_MS also while no sender waits, such as counts. More counts as other writes. */
const QUIET_BYTES = 16_384;
/** Time limit of a checkpoint, which writes what the server has in memory: `shared_buffers` at most. */
const CHECKPOINT_TIMEOUT_MS = 120_000;

const lookSql = `
  select count(*)::int as files, pg_size_bytes(current_setting('wal_segment_size'))::float8 as "fileBytes",
    case current_setting('archive_mode') when 'off' then pg_size_bytes(current_setting('min_wal_size')) else 0 end::float8 as "wantedBytes",
    pg_current_wal_insert_lsn() - '0/0' as position
  from pg_ls_waldir() where name ~ '^[0-9A-F]{24}$'`;

/**
 * Creates WAL files up to `min_wal_size` or a tenth of the free space, one at a time while nothing else writes, and then a checkpoint, which
 * keeps them for reuse. Resolves with the number of new files; 0: there were enough, or WAL is archived. Rejects when the role may not do it.
 * @param freeBytes free space at the directory of the WAL
 * @param signal stops the call, which then rejects
 */
export async function fillWalPool(database: Database, freeBytes: number, signal: AbortSignal): Promise<number> {
  const look = async () => (await database.query<Look>({ text: lookSql }))[0]!;
  let last = await look();
  const { files, fileBytes } = last;
  const wantedFiles = Math.min(last.wantedBytes, (freeBytes + files * fileBytes) * DISK_SHARE) / fileBytes;
  while (last.files < Math.floor(wantedFiles)) {
    await delay(QUIET_MS, undefined, { signal });
    const now = await look();
    // The message is only a record: the server does not switch from a file without records.
    if (Number(now.position) - Number(last.position) <= QUIET_BYTES)
      await database.query({ text: `select pg_switch_wal() from pg_logical_emit_message(false, 'weir', '')` });
    last = await look();
  }
  if (last.files > files) await database.query({ text: 'checkpoint', timeoutMs: CHECKPOINT_TIMEOUT_MS });
  return last.files - files;
}

interface Look {
  files: number;
  fileBytes: number;
  wantedBytes: number;
  /** Bytes, as text. */
  position: string;
}

/** Free space at the WAL of the server in DATA_DIR, in bytes. */
export async function freeWalBytes(dataDir: string): Promise<number> {
  const { bavail, bsize } = await statfs(join(dataDir, 'postgres/pg_wal'));
  return bavail * bsize;
}
