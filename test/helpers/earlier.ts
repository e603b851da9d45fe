/** Databases of the commits before server/store/migrations/0001_schema.sql. */
import { readFileSync } from 'node:fs';
import type { Database } from '../../server/store/connect/pool.ts';
import { emptyDatabase, type FreshDatabase } from './postgres.ts';

const schema = readFileSync(new URL('../../server/store/migrations/0001_schema.sql', import.meta.url), 'utf8');
const FIRST_VERSION = 39;

/** What the earlier migrations of these versions added. */
const withoutAddition: Record<number, string> = {
  58: 'alter table webhooks drop column answer, drop column refused_status',
  57: `alter table agents drop column previous_lookup_id, drop column previous_secret_hash, drop column previous_generation,
    drop column previous_expires_at, drop column previous_used_at`,
};

/** Replaces the list of migrations by the earlier one, up to this version. */
export async function listEarlier({ query }: Pick<Database, 'query'>, version: number): Promise<void> {
  await query({
    text: `
      with made as (delete from schema_migrations returning applied_at)
      insert into schema_migrations (version, name, applied_at)
      select number, lpad(number::text, 4, '0') || '_earlier.sql', min(applied_at) + number * interval '1 second'
      from made, generate_series($1::integer, $2::integer) number group by number`,
    values: [FIRST_VERSION, version],
  });
}

/** A database as migrations up to `version` made it; drop it at the end. */
export async function earlierDatabase(version: number): Promise<FreshDatabase> {
  const fresh = await emptyDatabase();
  const { query } = fresh.database;
  await query({
    text: `create table schema_migrations (
      version integer primary key, name text not null, applied_at timestamptz not null default now(), compatible_from integer)`,
  });
  await query({ text: schema });
  await query({ text: `insert into schema_migrations (version, name) values (1, '')` });
  for (const [number, text] of Object.entries(withoutAddition)) if (Number(number) > version) await query({ text });
  await listEarlier(fresh.database, version);
  return fresh;
}
