/**
 * Forward-only SQL migrations: `migrations/NNNN_slug.sql`, applied in one transaction under one advisory lock. The first file,
 * 0039_schema.sql, creates the whole schema: it replaced versions 1 to 39, which made the same schema in steps.
 */

import { readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { builtFile } from '../files/build.ts';
import { weirCommand } from '../files/command.ts';
import { OperatorError } from '../settings/fault.ts';
import { advisoryLocks } from './advisory-locks.ts';
import { turnOffJit } from './conninfo.ts';
import type { Database } from './pool.ts';

/** A migration may build an index over all stored data, and processes that start at the same time wait for it. */
const TIMEOUT_MS = 86_400_000;

const MIGRATIONS = 'server/db/migrations';

/** The last commit whose migrations end at the version of the first file: an older database is migrated by its build first. */
const BASE_COMMIT = 'a9e3153';

/** Versions and names of all migrations in this release, oldest first. */
export function migrationFiles(): { version: number; name: string }[] {
  return readdirSync(builtFile(MIGRATIONS))
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), name }));
}

/**
 * Migrates the schema to this release. Returns the names of the applied migrations. Safe to run concurrently: the first caller
 * migrates, the others wait for it. Throws if the database is newer than this release, or too old for it.
 */
export function migrate(database: Database): Promise<string[]> {
  return database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.schema], timeoutMs: TIMEOUT_MS });
    await query({
      text: `create table if not exists schema_migrations (
        version integer primary key, name text not null, applied_at timestamptz not null default now())`,
    });
    const applied = await appliedVersions({ query });
    const files = migrationFiles();
    const problem = versionProblem(applied, 'the database', files);
    if (problem !== null) throw problem;
    const pending = files.filter((file) => !applied.has(file.version));
    for (const { version, name } of pending) {
      await query({ text: readFileSync(join(builtFile(MIGRATIONS), name), 'utf8'), timeoutMs: TIMEOUT_MS });
      await query({ text: 'insert into schema_migrations (version, name) values ($1, $2)', values: [version, name] });
    }
    await turnOffJit(query);
    return pending.map((file) => file.name);
  });
}

/** Numbers of the applied migrations; none if the database was never migrated. */
export async function appliedVersions({ query }: Pick<Database, 'query'>): Promise<Set<number>> {
  const [table] = await query<{ exists: boolean }>({
    text: `select to_regclass('schema_migrations') is not null as exists`,
  });
  const rows = table!.exists ? await query<{ version: number }>({ text: 'select version from schema_migrations' }) : [];
  return new Set(rows.map((row) => row.version));
}

/**
 * Why this release cannot migrate a database with these versions; null if it can.
 * @param subject what has these versions, for the message
 */
export function versionProblem(
  applied: Set<number>,
  subject = 'the database',
  files = migrationFiles(),
): OperatorError | null {
  const newest = Math.max(...applied);
  const finding = `${subject} is at schema version ${newest}`;
  if (newest > files.at(-1)!.version)
    return new OperatorError(
      `${finding}, newer than this release (${files.at(-1)!.version})`,
      'run the newer release or restore the backup made before the upgrade',
    );
  if (applied.size > 0 && newest < files[0]!.version)
    return new OperatorError(
      `${finding}, and this release upgrades from version ${files[0]!.version}`,
      `first run ${weirCommand()} migrate of commit ${BASE_COMMIT}`,
    );
  return null;
}

/**
 * Returns the names of migrations that are not applied; all of them if the database was never migrated.
 * @param files migrations of the running build: an upgrade may replace the files on disk while the process runs.
 */
export async function pendingMigrations(database: Database, files = migrationFiles()): Promise<string[]> {
  const applied = await appliedVersions(database);
  return files.filter((file) => !applied.has(file.version)).map((file) => file.name);
}
