/** Attaches the configured database, embedded or external. The server and the commands use this one entry point. */
import { join } from 'node:path';
import { weirCommand } from '../base/command/name.ts';
import type { Settings } from '../base/settings/read.ts';
import { OperatorError } from '../model/fault.ts';
import { asRole, describeConninfo, withoutSecrets } from './connect/conninfo.ts';
import { type Database, type DatabasePool, LISTENING_MAX, openDatabase, type Queries } from './connect/pool.ts';
import { oneLine } from './connect/unavailable.ts';
import { COPY_CONNECTIONS } from './copy/connection.ts';
import { joinEmbeddedPostgres } from './embedded/join.ts';
import { SERVING_ROLE } from './embedded/serving-role.ts';
import { type Applied, appliedVersions, describeBlocked, migrate, pendingOf, versionProblem } from './migrate.ts';
import { requireFit } from './server-checks.ts';

/** The database cannot be used; the message is for users and contains no secrets. */
export class DatabaseError extends OperatorError {}

export interface AttachedDatabase {
  conninfo: string;
  /** Connection string of the serving processes, which have a role of their own on an embedded server. */
  servingConninfo: string;
  database: DatabasePool;
  /** Restarts an embedded server that was killed. Does nothing while it runs, and for an external server. */
  revive(): Promise<void>;
  /** Closes the pool; the last user of an embedded server stops it. */
  detach(): Promise<void>;
  /** Like `detach`, without a wait for statements: for a program that ends. */
  leave(): Promise<void>;
}

const PRIMARY_CONNECTIONS = 3;
/** Connections beyond those of the processes: PRIMARY_CONNECTIONS, listener, two for jobs, drain of the spool, doctor, eight for commands. */
const OTHER_CONNECTIONS = 16;
/** Postgres default of superuser_reserved_connections. */
const RESERVED_CONNECTIONS = 3;

/** Connections that all parts together may open, in pools, for COPY and for `listening`, with one extra process during a restart. */
export function connectionsNeeded({ WORKERS, DB_POOL_MAX }: Settings): number {
  return (WORKERS + 1) * (DB_POOL_MAX + COPY_CONNECTIONS + LISTENING_MAX) + OTHER_CONNECTIONS;
}

/** The embedded server has connections for at least this number of processes, so that WORKERS can be raised while it runs. */
const EMBEDDED_WORKERS_MIN = 8;

/** max_connections of the embedded server: what its processes and commands may open, and the reserved ones. */
export function embeddedConnections(settings: Settings): number {
  const WORKERS = Math.max(settings.WORKERS, EMBEDDED_WORKERS_MIN);
  return connectionsNeeded({ ...settings, WORKERS }) + RESERVED_CONNECTIONS;
}

/** Reports progress to users, one line at a time. */
type Report = (line: string) => void;

interface AttachOptions {
  /**
   * Join a running embedded server that has fewer connections than the settings may open. For commands, whose WORKERS may differ from the
   * server's.
   */
  joinSmaller: boolean;
  /** Ends the wait for another process that starts or stops the embedded server, with a LockError. */
  stopping?: AbortSignal;
}

/**
 * Checks and migrates an attached database; detaches if that fails. Resolves with the names of the migrations that were applied. Throws
 * DatabaseError.
 * @param log progress of the embedded server, for users.
 */
export function migrateAttached(attached: AttachedDatabase, settings: Settings, log: Report): Promise<string[]> {
  return orDetach(attached, settings, async (database) => {
    await requireFit(database);
    return migrate(database, { onBlocked: (waitsFor) => log(describeBlocked(waitsFor)) });
  });
}

/** Like migrateAttached, for a database whose schema this release can serve as it is. */
export function requireCurrent(attached: AttachedDatabase, settings: Settings): Promise<string[]> {
  return orDetach(attached, settings, async (database) => {
    const applied = await appliedVersions(database);
    const problem = applied.size === 0 ? noSchema : (versionProblem(applied) ?? outdated(applied));
    if (problem !== null) throw problem;
    return [];
  });
}

/** @param prepare resolves with the names of the migrations that it applied */
function orDetach(
  { database, conninfo, detach }: AttachedDatabase,
  settings: Settings,
  prepare: (database: DatabasePool) => Promise<string[]>,
): Promise<string[]> {
  return prepare(database).catch(async (error) => {
    await detach();
    throw unusable(conninfo, error, settings);
  });
}

const noSchema = new OperatorError('it has no schema of Weir', `create it: ${weirCommand()} start`);

function outdated(applied: Applied): OperatorError | null {
  const lacking = pendingOf(applied);
  if (lacking.length === 0) return null;
  return new OperatorError(
    `it lacks migrations of this release (${lacking.map(({ name }) => name).join(', ')})`,
    `restart Weir with this release, or upgrade it first: ${weirCommand()} migrate`,
  );
}

/** Opens the pool of a cell, for a primary or a command. */
export function openCell(conninfo: string): DatabasePool {
  return openDatabase(conninfo, { connectionsMax: PRIMARY_CONNECTIONS, applicationName: 'weir-primary' });
}

/**
 * Starts or joins the embedded server, or opens a pool of an external one, to which it does not connect. Migrates nothing. Throws
 * EmbeddedPostgresError.
 */
export async function attachDatabase(
  settings: Settings,
  log: Report,
  { joinSmaller, stopping }: AttachOptions,
): Promise<AttachedDatabase> {
  const joinServer = () =>
    joinEmbeddedPostgres({
      dataDir: settings.DATA_DIR,
      maxConnections: embeddedConnections(settings),
      joinSmaller,
      stopping,
      log,
    });
  let embedded = settings.database.kind === 'embedded' ? await joinServer() : null;
  const conninfo = embedded?.conninfo ?? (settings.database as { conninfo: string }).conninfo;
  const database = openDatabase(conninfo, { connectionsMax: PRIMARY_CONNECTIONS, applicationName: 'weir-primary' });
  const revive = async () => {
    const before = embedded;
    if (before === null) return;
    embedded = await joinServer();
    await before.leave();
  };
  const leave = async () => embedded?.leave();
  const detach = async () => {
    await database.close();
    await leave();
  };
  const servingConninfo = embedded === null ? conninfo : asRole(conninfo, SERVING_ROLE);
  return { conninfo, servingConninfo, database, revive, detach, leave };
}

/** The error of a database that cannot be used, for users. @param settings the settings that name the database; absent: none do */
export function unusable(
  conninfo: string,
  error: unknown,
  settings?: Pick<Settings, 'database' | 'DATA_DIR'>,
): DatabaseError {
  const ofSettings =
    settings?.database.kind === 'embedded'
      ? `see ${join(settings.DATA_DIR, 'postgres.log')}`
      : 'check DATABASE_URL or the POSTGRES_* settings';
  const fix = settings === undefined ? 'start its server, or check the connection string' : ofSettings;
  return new DatabaseError(
    `the database at ${describeConninfo(conninfo)} cannot be used: ${oneLine(withoutSecrets(findingOf(error), conninfo))}`,
    error instanceof OperatorError ? error.fix : fix,
  );
}

/** Connections of all programs that the server allows to other users than a superuser. */
export async function connectionsAllowed({ query }: Queries): Promise<number> {
  const [row] = await query<{ allowed: number }>({
    text: `select current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int as allowed`,
  });
  return row!.allowed;
}

/** Throws DatabaseError if the server's max_connections is less than the settings may open. */
export async function checkConnectionBudget(database: Database, settings: Settings): Promise<void> {
  const allowed = await connectionsAllowed(database);
  const needed = connectionsNeeded(settings);
  if (allowed < needed)
    throw new DatabaseError(
      `the database allows ${allowed} connections, but WORKERS=${settings.WORKERS} and DB_POOL_MAX=${settings.DB_POOL_MAX} may open ${needed}`,
      'lower one of them or raise max_connections',
    );
}

function findingOf(error: unknown): string {
  return error instanceof OperatorError ? error.finding : (error as Error).message;
}
