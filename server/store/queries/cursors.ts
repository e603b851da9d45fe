/** Cursors of lists whose rows can be deleted. */
import type { Queries } from '../connect/pool.ts';

export type PagedTable = 'agents' | 'api_tokens' | 'jobs';

/** Whether the row that a cursor names still exists, shown in the list or not. */
export async function cursorExists({ query }: Queries, table: PagedTable, id: string): Promise<boolean> {
  const rows = await query({ text: `select 1 from ${table} where id = $1`, values: [id] });
  return rows.length > 0;
}
