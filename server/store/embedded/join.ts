/**
 * The embedded database: a Postgres server in DATA_DIR, shared by the Weir server and the commands. The first process starts it, later
 * processes join it, and the last process to leave stops it. A killed process releases its locks and leaves the server running; the next
 * process joins it.
 * `postgres.start.lock` is held (exclusive) while starting or stopping the server.
 * `postgres.users.lock` is held (shared) by each process that uses the server; an exclusive lock proves that no other process uses it.
 */
import { chown, mkdtemp, readdir, readFile, realpath, rename, rm, stat } from 'node:fs/promises';
import { join } from 'node:path';
import { createDataDir } from '../../base/files/data-dir.ts';
import { flushPath } from '../../base/files/durable-file.ts';
import { acquireLock, describeHolder, type Lock } from '../../base/files/lock.ts';
import { checkWalkable, chooseAccount, EmbeddedPostgresError } from './account.ts';
import { type Binaries, copyBinaries, findBinaries, removeOldCopies, runBinary } from './binaries.ts';
import {
  checkSocketPath,
  conninfoOf,
  LOG_TAIL_BYTES,
  NAME,
  type Server,
  startServer,
  steadyState,
  stopServer,
} from './server.ts';
import { writtenConnections } from './settings.ts';

/** Minimum max_connections: enough for a few commands beside a small server. */
const CONNECTIONS_MIN = 20;

/** The start lock is held for at most one start (120 s, see server.ts) preceded by one stop (120 s). */
const LOCK_WAIT_SECONDS = 300;

/** Name prefix of a data directory that is not complete yet. */
const UNFINISHED_PREFIX = 'postgres.making-';

export interface EmbeddedPostgres {
  /** libpq connection string over the Unix socket. */
  conninfo: string;
  /** True when this call started the server, false when it joined a running one. */
  started: boolean;
  /** Leaves; the last process stops the server (fast shutdown) and waits for it. Idempotent. Throws EmbeddedPostgresError. */
  leave(): Promise<void>;
}

interface Options {
  /** Created if missing. */
  dataDir: string;
  /** Connections that all processes together may open. */
  maxConnections: number;
  /** Joins a running server even if it has fewer connections, without restarting it. Default: false. */
  joinSmaller?: boolean;
  /** Timeout for another process that starts or stops the server. Default: LOCK_WAIT_SECONDS. */
  lockWaitSeconds?: number;
  /** Ends the wait for that process with a LockError. */
  stopping?: AbortSignal | undefined;
  /** Receives progress messages for users, one line at a time. */
  log: (line: string) => void;
}

/**
 * Creates the database if it is missing, starts the server if it is down, joins it if it is up. If Postgres itself was killed, joining
 * again restarts it; leave the old membership afterwards. Throws LockError, and EmbeddedPostgresError with a message for users.
 */
export async function joinEmbeddedPostgres(options: Options): Promise<EmbeddedPostgres> {
  const found = await findBinaries();
  const dataDir = await resolveDataDir(options.dataDir);
  const pgdata = join(dataDir, 'postgres');
  checkSocketPath(pgdata);
  const lockWaitSeconds = options.lockWaitSeconds ?? LOCK_WAIT_SECONDS;
  const startLock = await acquireStartLock(dataDir, lockWaitSeconds, options.log, options.stopping);
  try {
    const server = await prepare(found, dataDir, pgdata);
    const started = await startUnlessRunning(server, {
      ...options,
      maxConnections: Math.max(options.maxConnections, CONNECTIONS_MIN),
    });
    const membership = await acquireLock(usersLock(dataDir), 'shared', lockWaitSeconds);
    let left: Promise<void> | undefined;
    return {
      conninfo: conninfoOf(server),
      started,
      leave: () => {
        left ??= leave(server, membership, lockWaitSeconds, options.log);
        return left;
      },
    };
  } finally {
    await startLock.release();
  }
}

/** Whether DATA_DIR has an embedded database, complete and of any version. */
export async function hasEmbeddedData(dataDir: string): Promise<boolean> {
  return (await stat(join(dataDir, 'postgres')).catch(() => null)) !== null;
}

async function prepare(found: Binaries, dataDir: string, pgdata: string): Promise<Server> {
  const major = await majorOf(pgdata);
  if (major !== null && major !== found.major) throw otherMajor(pgdata, major, found.major);
  const account = await chooseAccount(pgdata);
  await checkWalkable(dataDir, account);
  const binaries = account === null ? found : await copyBinaries(found, dataDir);
  const beside = (name: string) => join(dataDir, name);
  return { dataDir, pgdata, logPath: beside('postgres.log'), settingsPath: beside('postgres.conf'), binaries, account };
}

/** Resolves with true if it started the server. Call with the start lock held. */
async function startUnlessRunning(
  server: Server,
  { maxConnections, joinSmaller = false, log }: Options,
): Promise<boolean> {
  const state = await steadyState(server);
  if (state.kind === 'ready') {
    if (joinSmaller || state.maxConnections === null || state.maxConnections >= maxConnections) return false;
    const onlyUser = await acquireLock(usersLock(server.dataDir), 'exclusive', 0);
    if (onlyUser === null) throw tooFewConnections(server, state.maxConnections, maxConnections);
    await stopServer(server).finally(() => onlyUser.release());
  }
  if ((await majorOf(server.pgdata)) === null) {
    log(`Creating the database in ${server.pgdata}`);
    await makeDataDirectory(server);
  }
  if (server.account !== null) await removeOldCopies(server.binaries, server.dataDir);
  log(`Starting Postgres in ${server.pgdata}`);
  await startServer(server, Math.max(maxConnections, await connectionsOfOthers(server)));
  return true;
}

/** Connections that a killed server allowed, if other processes still use it; 0: none does. */
async function connectionsOfOthers(server: Server): Promise<number> {
  const onlyUser = await acquireLock(usersLock(server.dataDir), 'exclusive', 0);
  if (onlyUser === null) return writtenConnections(server.settingsPath);
  await onlyUser.release();
  return 0;
}

/** Major version of the data directory; `null`: the directory does not exist. */
async function majorOf(pgdata: string): Promise<string | null> {
  try {
    return (await readFile(join(pgdata, 'PG_VERSION'), 'utf8')).trim();
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ENOENT') throw error;
  }
  if ((await stat(pgdata).catch(() => null)) === null) return null;
  throw new EmbeddedPostgresError(
    `${pgdata} exists but is not a Postgres data directory`,
    'move it away, or set another DATA_DIR',
  );
}

/** Creates the data directory with an empty database, atomically: in a temporary directory that is then renamed. */
async function makeDataDirectory(server: Server): Promise<void> {
  const remains = (await readdir(server.dataDir)).filter((name) => name.startsWith(UNFINISHED_PREFIX));
  for (const name of remains) await rm(join(server.dataDir, name), { recursive: true, force: true });
  // A unique name per attempt: an initdb whose parent was killed keeps writing for a moment and must not write into this directory.
  const unfinished = await mkdtemp(join(server.dataDir, UNFINISHED_PREFIX));
  if (server.account !== null) await chown(unfinished, server.account.uid, server.account.gid);
  // Collation C: index order does not depend on the machine's C library. C.UTF-8 adds upper and lower case beyond ASCII.
  const flags = [
    '-D',
    unfinished,
    `--username=${NAME}`,
    '--auth=trust',
    '--encoding=UTF8',
    '--locale=C',
    '--data-checksums',
  ];
  let made = await runBinary(server, 'initdb', [...flags, '--lc-ctype=C.UTF-8']);
  if (made.code !== 0 && made.output.includes('invalid locale name')) made = await runBinary(server, 'initdb', flags);
  if (made.code === 0) {
    const single = ['--single', '-D', unfinished, '-c', 'exit_on_error=on', 'postgres'];
    made = await runBinary(server, 'postgres', single, `create database ${NAME}\n`);
  }
  if (made.code !== 0) {
    await rm(unfinished, { recursive: true, force: true });
    throw new EmbeddedPostgresError(
      `The database in ${server.pgdata} could not be created:\n${made.output.trim().slice(-LOG_TAIL_BYTES)}`,
    );
  }
  await rename(unfinished, server.pgdata);
  await flushPath(server.dataDir);
}

async function leave(server: Server, membership: Lock, lockWaitSeconds: number, log: Options['log']): Promise<void> {
  const startLock = await acquireStartLock(server.dataDir, lockWaitSeconds, log).catch(async (error) => {
    // The server stays up; the next process joins it and later stops it.
    await membership.release();
    throw error;
  });
  try {
    await membership.release();
    const onlyUser = await acquireLock(usersLock(server.dataDir), 'exclusive', 0);
    if (onlyUser === null) return;
    await stopServer(server).finally(() => onlyUser.release());
  } finally {
    await startLock.release();
  }
}

async function acquireStartLock(
  dataDir: string,
  waitSeconds: number,
  log: Options['log'],
  stopping?: AbortSignal,
): Promise<Lock> {
  const path = join(dataDir, 'postgres.start.lock');
  const immediate = await acquireLock(path, 'exclusive', 0);
  if (immediate !== null) return immediate;
  log(`Waiting: ${await describeHolder(path)} is starting or stopping the database in ${dataDir}`);
  return acquireLock(path, 'exclusive', waitSeconds, stopping);
}

function usersLock(dataDir: string): string {
  return join(dataDir, 'postgres.users.lock');
}

/** Returns the resolved directory; creates it if missing. */
async function resolveDataDir(dataDir: string): Promise<string> {
  try {
    createDataDir(dataDir);
    return await realpath(dataDir);
  } catch (error) {
    throw new EmbeddedPostgresError(`DATA_DIR ${dataDir} cannot be created: ${(error as Error).message}`);
  }
}

function tooFewConnections(server: Server, has: number, needs: number): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `The database in ${server.pgdata} allows ${has} connections, ${needs} are needed, and another Weir is using it`,
    'stop that one first, or lower WORKERS or DB_POOL_MAX',
  );
}

function otherMajor(pgdata: string, has: string, ours: string): EmbeddedPostgresError {
  return new EmbeddedPostgresError(
    `The database in ${pgdata} was created by Postgres ${has}; this Weir includes Postgres ${ours}. Nothing was changed. To migrate:`,
    `  1. start the Weir that created it and run:  pg_dump --format=custom --host=${pgdata} --username=weir --file=weir.dump weir
  2. stop it and run:  mv ${pgdata} ${pgdata}-${has}
  3. start this Weir and run:  psql --host=${pgdata} --username=weir --command='drop schema public cascade' --command='create schema public' weir
     and then:  pg_restore --exit-on-error --host=${pgdata} --username=weir --dbname=weir weir.dump
  4. restart this Weir`,
  );
}
