/** DATA_DIR/postgres.conf, rewritten at each start; `alter system` (postgresql.auto.conf) overrides it. */
import { readFileSync } from 'node:fs';
import { replaceFile } from '../../base/files/durable-file.ts';

/** Only part of the socket's name; there is no TCP listener. */
export const SOCKET_PORT = 5432;
/** WAL files that are kept to be used again: as much as 1,400,000 events of 1 KiB write. `weir doctor` recommends it for other servers. */
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
    ['min_wal_size', `${WAL_POOL_MB}MB`, 'reuse log files rather than make them under load; see wal-pool.ts'],
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

/** @param path of a file that only the user that starts the server can write. */
export function writeSettings(path: string, maxConnections: number): void {
  const lines = settings(maxConnections).map(([name, value, why]) => `${name} = ${value}${why && ` # ${why}`}\n`);
  const head = '# Written by Weir at each start. For settings of your own use: alter system set NAME = VALUE\n';
  replaceFile(path, head + lines.join(''), 0o644);
}

/** max_connections that were written last. */
export function writtenConnections(path: string): number {
  return Number(/^max_connections = (\d+)/m.exec(readFileSync(path, 'utf8'))![1]);
}
