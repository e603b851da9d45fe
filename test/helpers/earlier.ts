/** Databases of earlier commits. */
import { readFileSync } from 'node:fs';
import { emptyDatabase, type FreshDatabase } from './postgres.ts';

/** A database with the first migration alone; drop it at the end. */
export async function earlierDatabase(): Promise<FreshDatabase> {
  const fresh = await emptyDatabase();
  const schema = readFileSync(new URL('../../server/store/migrations/0001_schema.sql', import.meta.url), 'utf8');
  await fresh.database.query({
    text: `
      create table schema_migrations (
        version integer primary key, name text not null, applied_at timestamptz not null default now(), compatible_from integer);
      ${schema};
      insert into schema_migrations (version, name) values (1, '0001_schema.sql')`,
  });
  return fresh;
}
