/** The next release: this one with one more migration, whose schema this one can serve. */
import { cp, mkdtemp, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import type { Database } from '../../server/store/connect/pool.ts';
import { type Migration, migrationFiles } from '../../server/store/migrate.ts';
import { type Installation, installWeir } from './installation.ts';

const MIGRATIONS = 'server/store/migrations';

const files = migrationFiles();
const { version } = files.at(-1)!;

export const nextMigration = `${String(version + 1).padStart(4, '0')}_next_release.sql`;

const writeNext = (folder: string) =>
  writeFile(
    join(folder, nextMigration),
    `-- Compatible from: ${version}\nalter table webhooks add column next int;\ncomment on column webhooks.next is 'A test.';\n`,
  );

/** A build of it. @param directory by default a temporary one */
export async function installNextRelease(directory?: string): Promise<Installation> {
  const installation = await installWeir(directory);
  await writeNext(join(installation.directory, 'dist', MIGRATIONS));
  return installation;
}

/** Its migrations, for the code of this release. */
export async function nextMigrations(): Promise<Migration[]> {
  const folder = await mkdtemp(join(tmpdir(), 'weir-n-'));
  await cp(fileURLToPath(new URL(`../../${MIGRATIONS}`, import.meta.url)), folder, { recursive: true });
  await writeNext(folder);
  return migrationFiles(folder);
}

/** Takes its migration back, if it was applied. */
export async function takeBack(database: Database): Promise<void> {
  await database.query({
    text: `alter table webhooks drop column if exists next; delete from schema_migrations where version > ${version}`,
  });
}

/** Says of a database of this release that the commit before the one schema made it. */
export async function recordEarlierVersions(database: Database): Promise<void> {
  await database.query({
    text: `
      insert into schema_migrations (version, name, compatible_from)
      select n, 'earlier', nullif(n - 1, 0) from generate_series(1, ${files[0]!.version - 1}) n`,
  });
}
