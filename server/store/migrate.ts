/**
 * Forward-only SQL migrations: `migrations/NNNN_slug.sql`, applied in one transaction under one advisory lock. A change of a table waits for
 * every transaction that has read it, such as a backup, and ingest waits behind the change. An attempt therefore waits briefly, is rolled
 * back, and is repeated after a pause.
 */
import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { setTimeout as delay } from 'node:timers/promises';
import { weirCommand } from '../base/command/name.ts';
import { builtFile } from '../base/files/build.ts';
import { OperatorError } from '../model/fault.ts';
import { advisoryLocks, takeLock } from './advisory-locks.ts';
import type { Database, Queries, Query } from './connect/pool.ts';

/** A migration may build an index over all stored data, and processes that start at the same time wait for it. */
const TIMEOUT_MS = 86_400_000;

/** How long an attempt waits for a lock, and the pause after it: ingest waits for at most a sixth of the time. */
const LOCK_TRIES = { waitMs: 2_000, pauseMs: 10_000 };

const LOCK_NOT_AVAILABLE = '55P03';

const MIGRATIONS = 'server/store/migrations';

/** Versions of applied migrations, each with the oldest version whose release can serve the schema after it; null: only those that have it. */
export type Applied = ReadonlyMap<number, number | null>;

/** The newest applied version; -Infinity: none is applied. */
export function newestOf(applied: Applied): number {
  return Math.max(...applied.keys());
}

/** Reads what a migration states in its file, for a rolling update and a roll-back: `-- Compatible from: 42`, or `none`. */
export function compatibleFrom(text: string): number | null {
  const version = /^-- Compatible from: (\d+)$/m.exec(text)?.[1];
  return version === undefined ? null : Number(version);
}

export interface Migration {
  version: number;
  name: string;
  path: string;
}

/** All migrations in this release, oldest first. */
export function migrationFiles(folder = builtFile(MIGRATIONS)): Migration[] {
  return readdirSync(folder)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), name, path: join(folder, name) }));
}

export interface MigrateOptions {
  /** Called when the database answers. Later delays are those of migrations, by this caller or another one. */
  onBegun?: () => void;
  /** Cancels the migration, also while it waits for another caller; it is rolled back. */
  stopping?: AbortSignal | undefined;
  /** Called after each attempt that timed out while it waited for a lock. @param waitsFor what it waited for */
  onBlocked?: (waitsFor: string) => void;
  lockTries?: typeof LOCK_TRIES;
  /** Default: the migrations of this release. */
  files?: readonly Migration[] | undefined;
}

/**
 * Migrates the schema to this release. Returns the names of the applied migrations. Safe to run concurrently: the first caller
 * migrates, the others wait for it. Throws if the database is too old for this release, or newer and not compatible with it.
 */
export async function migrate(database: Database, options: MigrateOptions = {}): Promise<string[]> {
  const { lockTries: { waitMs, pauseMs } = LOCK_TRIES, stopping, onBlocked } = options;
  const untilMs = performance.now() + TIMEOUT_MS;
  for (;;) {
    const blocker = { found: 'a lock' };
    try {
      return await tryToMigrate(database, options, waitMs, blocker);
    } catch (error) {
      if ((error as { code?: string }).code !== LOCK_NOT_AVAILABLE || performance.now() > untilMs) throw error;
      onBlocked?.(blocker.found);
      await delay(pauseMs, null, { signal: stopping }).catch(() => {});
      if (stopping?.aborted) throw error;
    }
  }
}

function tryToMigrate(
  database: Database,
  { onBegun, stopping, files = migrationFiles() }: MigrateOptions,
  waitMs: number,
  blocker: { found: string },
): Promise<string[]> {
  return database.transaction(async (query) => {
    onBegun?.();
    const [session] = await query<{ pid: number }>({ text: 'select pg_backend_pid() as pid' });
    const { pid } = session!;
    // By another connection. When it fails, `onBlocked` names no holder.
    const watch = async () => {
      blocker.found = (await readBlocker(database, pid).catch(() => null)) ?? blocker.found;
    };
    const watching = setInterval(watch, waitMs / 4);
    return cancellable(database, pid, stopping, () => migrateIn(query, files, waitMs)).finally(() =>
      clearInterval(watching),
    );
  });
}

async function migrateIn(query: Query, files: readonly Migration[], lockWaitMs: number): Promise<string[]> {
  await takeLock(query, advisoryLocks.schema, { timeoutMs: TIMEOUT_MS });
  await query({ text: `set local lock_timeout = ${lockWaitMs}` });
  await query({
    text: `create table if not exists schema_migrations (
      version integer primary key, name text not null, applied_at timestamptz not null default now(), compatible_from integer)`,
  });
  const applied = await appliedVersions({ query });
  const problem = versionProblem(applied, 'database', files);
  if (problem !== null) throw problem;
  const pending = pendingOf(applied, files);
  for (const { version, name, path } of pending) {
    const text = readFileSync(path, 'utf8');
    await query({ text, timeoutMs: TIMEOUT_MS });
    await query({
      text: 'insert into schema_migrations (version, name, compatible_from) values ($1, $2, $3)',
      values: [version, name, compatibleFrom(text)],
    });
  }
  return pending.map((file) => file.name);
}

/** Interval of cancels: one that arrives between two statements of the session cancels neither. */
const CANCEL_EVERY_MS = 250;

/** Runs statements of one session, and cancels the statement in progress when `stopping` aborts. */
async function cancellable<T>(
  database: Database,
  pid: number,
  stopping: AbortSignal | undefined,
  work: () => Promise<T>,
) {
  if (stopping === undefined) return work();
  let isDone = false;
  const cancel = async () => {
    // By another connection, which may fail.
    for (; !isDone; await delay(CANCEL_EVERY_MS))
      await database.query({ text: 'select pg_cancel_backend($1)', values: [pid] }).catch(() => {});
  };
  stopping.throwIfAborted();
  stopping.addEventListener('abort', cancel, { once: true });
  return work().finally(() => {
    isDone = true;
    stopping.removeEventListener('abort', cancel);
  });
}

/** Whether a table exists: not before the migration that creates it. @param name with or without its schema */
export async function hasTable({ query }: Queries, name: string): Promise<boolean> {
  const [row] = await query<{ exists: boolean }>({
    text: 'select to_regclass($1) is not null as exists',
    values: [name],
  });
  return row!.exists;
}

/** The applied migrations; none if the database was never migrated. */
export async function appliedVersions({ query }: Queries): Promise<Applied> {
  if (!(await hasTable({ query }, 'schema_migrations'))) return new Map();
  const rows = await query<{ version: number; from: number | null }>({
    text: 'select version, compatible_from as "from" from schema_migrations',
  });
  return new Map(rows.map(({ version, from }) => [version, from]));
}

/**
 * Why this release cannot migrate or serve a database with these migrations; null if it can.
 * @param subject what has them, for the message
 */
export function versionProblem(
  applied: Applied,
  subject: 'database' | 'backup' = 'database',
  files: readonly Migration[] = migrationFiles(),
): OperatorError | null {
  const newest = newestOf(applied);
  const own = files.at(-1)!.version;
  const finding = `the ${subject} is at schema version ${newest}`;
  if (applied.size > 0 && !applied.has(files[0]!.version))
    return new OperatorError(
      `${finding}, of a commit that this release does not upgrade`,
      subject === 'backup'
        ? `restore it with ${weirCommand()} restore of commit 59f02da6, which upgrades it`
        : `first run ${weirCommand()} migrate of commit 59f02da6`,
    );
  const newer = [...applied].filter(([version]) => version > own);
  const oldestFit = Math.max(...newer.map(([version, from]) => from ?? version));
  if (newer.length > 0 && oldestFit > own)
    return new OperatorError(
      `${finding}, newer than this release (${own}) and not compatible with it`,
      'run the newer release or restore the backup made before the upgrade',
    );
  return null;
}

/**
 * The migrations of a release that are not applied.
 * @param files of the running build: an upgrade may replace the files on disk while the process runs.
 */
export function pendingOf(applied: Applied, files: readonly Migration[] = migrationFiles()): Migration[] {
  return files.filter(({ version }) => !applied.has(version));
}

/** Returns the names of migrations that are not applied; all of them if the database was never migrated. */
export async function pendingMigrations(database: Queries, files?: readonly Migration[]): Promise<string[]> {
  return pendingOf(await appliedVersions(database), files).map(({ name }) => name);
}

/** What a session waits for: the lock, and the session that has held or asked for it longest. Null: it does not wait. */
async function readBlocker({ query }: Queries, pid: number): Promise<string | null> {
  // Only a superuser and the role itself see the name and the time of a session.
  const [row] = await query<{ lock: string; pid: number; name: string | null; since: Date | null }>({
    text: `
      select coalesce(waiting.relation::regclass::text, waiting.locktype) as lock, holder.pid,
        nullif(holder.application_name, '') as name, holder.xact_start as since
      from pg_locks waiting, unnest(pg_blocking_pids(waiting.pid)) as blocking (pid)
      join pg_stat_activity holder on holder.pid = blocking.pid
      where waiting.pid = $1 and not waiting.granted
      order by holder.xact_start limit 1`,
    values: [pid],
  });
  if (row === undefined) return null;
  const { lock, name, since } = row;
  const who = `session ${row.pid}${name === null ? '' : ` (${name})`}`;
  return `the lock of ${lock}, held by ${who}${since === null ? '' : ` since ${since.toISOString()}`}`;
}

/**
 * What a command reports about a migration that was blocked.
 * @param cell absent: home
 */
export function describeBlocked(waitsFor: string, cell?: { number: number }): string {
  const of = cell === undefined ? '' : ` of cell ${cell.number}`;
  return `the migration${of} waits for ${waitsFor}; it is tried again`;
}
