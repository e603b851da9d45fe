/** Forward-only SQL migrations: `migrations/NNNN_slug.sql`, applied in one transaction under one advisory lock. */

import { readdirSync, readFileSync } from 'node:fs';
import { advisoryLocks } from './advisory-locks.ts';
import { turnOffJit } from './jit.ts';
import type { Database } from './pool.ts';

/** A migration may build an index over all stored data, and processes that start at the same time wait for it. */
const TIMEOUT_MS = 86_400_000;

const directory = new URL('./migrations/', import.meta.url);

/** Versions and names of all migrations in this release, oldest first. */
export function migrationFiles(): { version: number; name: string }[] {
  return readdirSync(directory)
    .filter((name) => name.endsWith('.sql'))
    .sort()
    .map((name) => ({ version: Number.parseInt(name, 10), name }));
}

/**
 * Migrates the schema to this release. Returns the names of the applied migrations. Safe to run concurrently: the first caller
 * migrates, the others wait for it. Throws if the database is newer than this release.
 */
export function migrate(database: Database): Promise<string[]> {
  return database.transaction(async (query) => {
    await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.schema], timeoutMs: TIMEOUT_MS });
    await query({
      text: `create table if not exists schema_migrations (
        version integer primary key, name text not null, applied_at timestamptz not null default now())`,
    });
    const rows = await query<{ version: number }>({ text: 'select version from schema_migrations' });
    const applied = new Set(rows.map((row) => row.version));
    const files = migrationFiles();
    const newest = Math.max(0, ...applied);
    if (newest > files.at(-1)!.version)
      throw new Error(
        `the database is at schema version ${newest}, newer than this release (${files.at(-1)!.version}); run the newer release or restore the backup made before the upgrade`,
      );
    const pending = files.filter((file) => !applied.has(file.version));
    for (const { version, name } of pending) {
      await query({ text: readFileSync(new URL(name, directory), 'utf8'), timeoutMs: TIMEOUT_MS });
      await query({ text: 'insert into schema_migrations (version, name) values ($1, $2)', values: [version, name] });
    }
    await turnOffJit(query);
    return pending.map((file) => file.name);
  });
}

/**
 * Returns the names of migrations that are not applied; all of them if the database was never migrated.
 * @param files migrations of the running build: an upgrade may replace the files on disk while the process runs.
 */
export async function pendingMigrations(database: Database, files = migrationFiles()): Promise<string[]> {
  const [row] = await database.query<{ exists: boolean }>({
    text: `select to_regclass('schema_migrations') is not null as exists`,
  });
  if (!row?.exists) return files.map((file) => file.name);
  const rows = await database.query<{ version: number }>({ text: 'select version from schema_migrations' });
  const applied = new Set(rows.map((applied) => applied.version));
  return files.filter((file) => !applied.has(file.version)).map((file) => file.name);
}
