/**
 * Databases of before 0001_schema.sql, which earlier migrations made. Those up to version 58 made the objects of that file; a test compares
 * both. The list of migrations is replaced in the transaction that migrates. A release with the earlier migrations then refuses to start;
 * its running processes continue to serve.
 */
import type { Query } from './connect/pool.ts';

/** The file of version 1. Earlier migrations had other files under the same numbers. */
export const FIRST = '0001_schema.sql';
/** The earliest and the last version that is adopted. */
const ADOPTED = { from: 56, to: 58 };

/** The last commit with the earlier migrations. */
export const EARLIER_COMMIT = 'b8d87c17';

/** What the version adds to a database that stopped before it. */
const additions: Record<number, string> = {
  57: `
    alter table agents
      add column previous_lookup_id text check (previous_lookup_id ~ '^[0-9A-Za-z]{12}$'),
      add column previous_secret_hash bytea check (length(previous_secret_hash) = 32),
      add column previous_generation integer,
      add column previous_expires_at timestamptz,
      add column previous_used_at timestamptz,
      add constraint agents_previous_check
        check (num_nulls(previous_lookup_id, previous_secret_hash, previous_generation, previous_expires_at) in (0, 4));
    create unique index agents_previous on agents (previous_lookup_id) where previous_lookup_id is not null`,
  58: `
    alter table webhooks
      add column answer jsonb,
      add column refused_status smallint constraint webhooks_refused_status_check check (refused_status in (401, 403))`,
};

/** Whether a database of this earlier version becomes one of FIRST. */
export function isAdopted(version: number): boolean {
  return version >= ADOPTED.from && version <= ADOPTED.to;
}

/** Makes the database one of FIRST. Call in the transaction that migrates. */
export async function adopt(query: Query, version: number): Promise<void> {
  for (const [number, text] of Object.entries(additions)) if (Number(number) > version) await query({ text });
  await query({
    text: `
      with earlier as (delete from schema_migrations returning applied_at)
      insert into schema_migrations (version, name, applied_at) select 1, $1, min(applied_at) from earlier`,
    values: [FIRST],
  });
}
