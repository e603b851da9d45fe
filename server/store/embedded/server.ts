/** One Postgres server on one data directory: start, query its state, stop. join.ts decides which process may do so, and when. */
import { constants } from 'node:fs';
import { open, readFile, realpath, rename, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import pg from 'pg';
import { type Account, EmbeddedPostgresError } from './account.ts';
import { type Binaries, cannotSpawn, spawnBinary } from './binaries.ts';
import { SOCKET_PORT, writeSettings } from './settings.ts';

/** Name of the role and of the database. */
export const NAME = 'weir';
/** Crash recovery reads at most `max_wal_size` of WAL. A server that takes longer keeps starting, and the next start joins it. */
const START_TIMEOUT_MS = 120_000;
/** A fast shutdown writes `shared_buffers` and waits for pending disk writes. */
const STOP_TIMEOUT_MS = 120_000;
/** Poll interval. Increases, because Postgres logs each connection attempt that it rejects. */
const POLL_MS = 25;
const POLL_MS_MAX = 400;
/** A log larger than this is renamed at the next start; one old log is kept. */
const LOG_BYTES_MAX = 16_777_216;
export const LOG_TAIL_BYTES = 2_000;
/** The flags of `a+`, but a symbolic link is refused: when Weir runs as root, another user may own DATA_DIR. */
const LOG_FLAGS = constants.O_RDWR | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;
/** A process id that cannot exist: one above the kernel's limit (PID_MAX_LIMIT). */
const NO_PID = 4_194_305;

export interface Server {
  /** DATA_DIR, resolved. */
  dataDir: string;
  /** DATA_DIR/postgres: the data and, in the same 0700 directory, the socket. */
  pgdata: string;
  logPath: string;
  /** Beside the data directory, not in it: as root, Weir never writes a file that the Postgres account could replace with a link. */
  settingsPath: string;
  binaries: Binaries;
  account: Account;
}

type EmbeddedState =
  | { kind: 'ready'; maxConnections: number | null /* unknown: every connection is taken */ }
  | { kind: 'busy' /* starting, recovering or stopping */; reason: string }
  | { kind: 'down' };

/** libpq connection string over the socket. */
export function conninfoOf(server: Server): string {
  const host = server.pgdata.replace(/[\\']/g, '\\$&');
  return `host='${host}' port=${SOCKET_PORT} user=${NAME} dbname=${NAME}`;
}

/** Throws EmbeddedPostgresError for a socket path over 107 bytes (sockaddr_un), or with a comma, which libpq treats as the end of a host. */
export function checkSocketPath(pgdata: string): void {
  const spareBytes = 107 - Buffer.byteLength(join(pgdata, `.s.PGSQL.${SOCKET_PORT}`));
  if (spareBytes < 0)
    throw new EmbeddedPostgresError(
      `The path of the database's socket in ${pgdata} is ${-spareBytes} bytes too long for a Unix socket`,
      'set DATA_DIR to a shorter path',
    );
  if (pgdata.includes(','))
    throw new EmbeddedPostgresError(`${pgdata} contains a comma`, 'set DATA_DIR to a path without one');
}

/** Starts the server in its own session and waits until it accepts connections. Throws EmbeddedPostgresError with the end of its log. */
export async function startServer(server: Server, maxConnections: number): Promise<void> {
  writeSettings(server.settingsPath, maxConnections);
  const until = performance.now() + START_TIMEOUT_MS;
  for (let pauseMs = POLL_MS; ; pauseMs = longer(pauseMs)) {
    await clearStalePids(server);
    const failure = await startOnce(server, until);
    if (failure === null) return;
    // A server started by a process that was killed at that moment may have come up first.
    if ((await steadyState(server)).kind === 'ready') return;
    // Sessions of a killed server exit within moments; until then their shared memory blocks a new server.
    if (failure.includes('No space left on device'))
      throw new EmbeddedPostgresError(
        `The disk of ${server.pgdata} is full, and Postgres does not start`,
        'free some space on it, or use a larger disk; a running Weir then starts it by itself',
      );
    if (!failure.includes('shared memory block') || performance.now() > until)
      throw new EmbeddedPostgresError(
        `Postgres did not start in ${server.pgdata}; the end of ${server.logPath}:\n${failure}`,
      );
    await delay(pauseMs);
  }
}

/** Returns `null`, or the end of the log of a server that exited before it was ready. */
async function startOnce(server: Server, until: number): Promise<string | null> {
  if (((await stat(server.logPath).catch(() => null))?.size ?? 0) > LOG_BYTES_MAX)
    await rename(server.logPath, `${server.logPath}.1`);
  const log = await open(server.logPath, LOG_FLAGS, 0o600);
  try {
    const startBytes = (await log.stat()).size;
    const flags = ['-D', server.pgdata, '-c', `config_file=${server.settingsPath}`];
    const postmaster = spawnBinary(server, 'postgres', flags, ['ignore', log.fd, log.fd]);
    let failure: string | null = null;
    postmaster.once('error', (error) => {
      failure = cannotSpawn(error);
    });
    postmaster.once('exit', (code, signal) => {
      failure ??= `postgres ended with ${signal ?? `exit code ${code}`}`;
    });
    postmaster.unref();
    for (let pauseMs = POLL_MS; ; pauseMs = longer(pauseMs)) {
      const state = await probeServer(server);
      if (state.kind === 'ready') return null;
      if (failure !== null) {
        const { size } = await log.stat();
        const position = Math.max(startBytes, size - LOG_TAIL_BYTES);
        const { buffer, bytesRead } = await log.read({ buffer: Buffer.alloc(LOG_TAIL_BYTES), position });
        return `${buffer.toString('utf8', 0, bytesRead)}${failure}`;
      }
      if (performance.now() > until) throw tooSlow(server, state);
      await delay(pauseMs);
    }
  } finally {
    await log.close();
  }
}

/** Waits while a running server is busy. Resolves with the first other state. Throws EmbeddedPostgresError on timeout. */
export async function steadyState(server: Server): Promise<Exclude<EmbeddedState, { kind: 'busy' }>> {
  const until = performance.now() + START_TIMEOUT_MS;
  for (let pauseMs = POLL_MS; ; pauseMs = longer(pauseMs)) {
    const state = await probeServer(server);
    if (state.kind === 'ready') return state;
    // Without a socket, only the process shows whether the server is starting or stopping, or does not run.
    if (state.kind === 'down' && (await alivePid(server)) === null) return state;
    if (performance.now() > until) throw tooSlow(server, state);
    await delay(pauseMs);
  }
}

/** Fast shutdown: ends sessions, writes everything, resolves when the server has exited. Throws EmbeddedPostgresError. */
export async function stopServer(server: Server): Promise<void> {
  const pid = await alivePid(server);
  if (pid === null) {
    const state = await probeServer(server);
    if (state.kind === 'down') return;
    throw new EmbeddedPostgresError(
      `Postgres in ${server.pgdata} runs outside this container or process namespace`,
      'stop it there',
    );
  }
  // The signal that pg_ctl sends. A pg_ctl process would itself be ended by a TERM to all processes of the service.
  process.kill(pid, 'SIGINT');
  const until = performance.now() + STOP_TIMEOUT_MS;
  for (let pauseMs = POLL_MS; (await alivePid(server)) !== null; pauseMs = longer(pauseMs)) {
    if (performance.now() > until)
      throw new EmbeddedPostgresError(
        `Postgres in ${server.pgdata} did not stop within ${STOP_TIMEOUT_MS / 1000} s`,
        `see ${server.logPath}`,
      );
    await delay(pauseMs);
  }
}

/** Reads the state with one connection over the socket, the only check that also works across containers. */
async function probeServer(server: Server): Promise<EmbeddedState> {
  const client = new pg.Client({
    host: server.pgdata,
    port: SOCKET_PORT,
    user: NAME,
    database: NAME,
    ssl: false,
    connectionTimeoutMillis: 5_000,
    query_timeout: 5_000,
  });
  client.on('error', () => {});
  try {
    await client.connect();
    const { rows } = await client.query<{ max_connections: string }>('show max_connections');
    return { kind: 'ready', maxConnections: Number(rows[0]!.max_connections) };
  } catch (error) {
    return stateFromError(server, error as NodeJS.ErrnoException);
  } finally {
    await client.end().catch(() => {});
  }
}

function stateFromError(server: Server, error: NodeJS.ErrnoException): EmbeddedState {
  switch (error.code) {
    case 'ENOENT':
    case 'ECONNREFUSED':
      return { kind: 'down' };
    case '53300': // too_many_connections
      return { kind: 'ready', maxConnections: null };
    case 'EACCES':
    case '28000': // invalid_authorization_specification
    case '3D000': // invalid_catalog_name
      throw new EmbeddedPostgresError(`The database in ${server.pgdata} refused the connection: ${error.message}`);
    default: // 57P03 cannot_connect_now, 57P01 admin_shutdown, a connection cut or timed out
      return { kind: 'busy', reason: error.message };
  }
}

/** Process id of the running server of this data directory, from postmaster.pid; null if it is not running. */
async function alivePid(server: Server): Promise<number | null> {
  const pid = await pidIn(pidFile(server));
  if (pid === null) return null;
  // The command line is world-readable; the working directory of another user's process is not, even for root in a container.
  const words = (await readFile(`/proc/${pid}/cmdline`, 'utf8').catch(() => '')).split('\0');
  const data = words[words.indexOf('-D') + 1];
  if (!words[0]?.endsWith('postgres') || data === undefined) return null;
  return (await realpath(data).catch(() => data)) === (await realpath(server.pgdata)) ? pid : null;
}

/**
 * Replaces the process id in a stale postmaster.pid, and in the lock file of the socket, with one that cannot exist. The files remain after
 * a crash, and their id may by now belong to another process of the same user, or to the killed server while its parent has not read its
 * exit code: Postgres would take that process for its server and refuse to start. The files are kept, so that Postgres still checks the
 * shared memory named in postmaster.pid and refuses to start while any session of the old server is alive.
 */
async function clearStalePids(server: Server): Promise<void> {
  if ((await alivePid(server)) !== null) return;
  for (const path of [pidFile(server), join(server.pgdata, `.s.PGSQL.${SOCKET_PORT}.lock`)]) {
    if ((await pidIn(path)) === null) continue;
    const [, ...rest] = (await readFile(path, 'utf8')).split('\n');
    const file = await open(path, constants.O_WRONLY | constants.O_TRUNC | constants.O_NOFOLLOW);
    await file.writeFile([NO_PID, ...rest].join('\n')).finally(() => file.close());
  }
}

function longer(pauseMs: number): number {
  return Math.min(pauseMs * 1.5, POLL_MS_MAX);
}

function tooSlow(server: Server, state: EmbeddedState): EmbeddedPostgresError {
  const reason = state.kind === 'busy' ? state.reason : 'it does not answer';
  return new EmbeddedPostgresError(
    `Postgres in ${server.pgdata} is not ready after ${START_TIMEOUT_MS / 1000} s (${reason})`,
    `it may still be recovering: see ${server.logPath}, and try again`,
  );
}

const pidFile = (server: Server) => join(server.pgdata, 'postmaster.pid');

/** The process id in the first line of the file; null if the file or the id is missing. */
async function pidIn(path: string): Promise<number | null> {
  const text = await readFile(path, 'utf8').catch(() => '');
  const pid = Number.parseInt(text, 10);
  return pid > 0 ? pid : null;
}
