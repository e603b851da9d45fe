/** Names of webhooks and agents, for pages that need no other fields. */
import type { Queries } from '../connect/pool.ts';
import { arrayOf, rowsNamed } from '../sql.ts';

export type NamedTable = 'webhooks' | 'agents';

export interface Named {
  id: string;
  name: string;
}

/** SQL conditions of the rows that lists show. A revoked temporary agent is not shown; maintenance deletes it. */
const isShown: Record<NamedTable, string> = {
  webhooks: 'deleted_at is null',
  agents: 'not (temporary and revoked_at is not null)',
};

/** Reads the names by id, of revoked agents too; deleted and unknown ones are omitted. */
export async function readNames({ query }: Queries, table: NamedTable, ids: readonly string[]): Promise<Named[]> {
  if (ids.length === 0) return [];
  return query<Named>({
    text: `select id, name from ${table} where id = any ($1::uuid[]) and ${isShown[table]}`,
    values: [arrayOf(ids)],
  });
}

export interface NewestNames {
  /** Substring of the name, case-insensitive. */
  contains: string | null;
  /** Only agents that are not revoked. */
  active: boolean;
  limit: number;
}

/** Reads the names of the newest webhooks or agents, newest first. */
export function readNewestNames(
  { query }: Queries,
  table: NamedTable,
  { contains, active, limit }: NewestNames,
): Promise<Named[]> {
  return query<Named>({
    text: `
      select id, name from ${contains === null ? table : rowsNamed(table, '$2')} t
      where ${isShown[table]} ${active && table === 'agents' ? 'and revoked_at is null' : ''}
      order by created_at desc, id desc
      limit $1`,
    values: [limit, ...(contains === null ? [] : [contains])],
  });
}

export type PagedTable = 'agents' | 'api_tokens' | 'jobs';

/** Whether the row that a cursor names still exists, shown in the list or not. */
export async function cursorExists({ query }: Queries, table: PagedTable, id: string): Promise<boolean> {
  const rows = await query({ text: `select 1 from ${table} where id = $1`, values: [id] });
  return rows.length > 0;
}
