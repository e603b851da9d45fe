/** Webhooks that are moving to another cell, see cells/move.ts. */
import type { Queries, Query } from '../../connect/pool.ts';

export interface Move {
  id: string;
  from: number;
  to: number;
  /** When the copy of its keys began, Unix milliseconds. */
  sinceMs: number;
}

/** Reads the moves that are not finished. */
export function readMoves({ query }: Queries): Promise<Move[]> {
  return query<Move>({
    text: `
      select id, moving_from as "from", cell as "to", (extract(epoch from moving_since) * 1000)::float8 as "sinceMs"
      from webhooks where moving_from is not null`,
  });
}

/** Begins the move of a webhook that does not move. Returns the cell that it leaves; undefined: it moves already. */
export async function beginMove(query: Query, id: string, to: number, sinceMs: number): Promise<number | undefined> {
  const [row] = await query<{ from: number }>({
    text: `
      update webhooks w set cell = $2, moving_from = w.cell, moving_since = $3, updated_at = now()
      where id = $1 and moving_from is null and cell <> $2
      returning moving_from as "from"`,
    values: [id, to, new Date(sinceMs).toISOString()],
  });
  return row?.from;
}

/** Ends this move, unless it has ended: two programs may finish it, and the webhook may have begun another one. */
export async function endMove({ query }: Queries, { id, from, to, sinceMs }: Move): Promise<void> {
  await query({
    text: `
      update webhooks set moving_from = null, moving_since = null
      where id = $1 and moving_from = $2 and cell = $3 and moving_since = $4`,
    values: [id, from, to, new Date(sinceMs).toISOString()],
  });
}

/** Puts a webhook back to the cell that it is leaving, which has all its keys. Returns false when it does not move from there. */
export async function undoMove(query: Query, id: string, from: number): Promise<boolean> {
  const rows = await query({
    text: `
      update webhooks set cell = moving_from, moving_from = null, moving_since = null, updated_at = now()
      where id = $1 and moving_from = $2
      returning id`,
    values: [id, from],
  });
  return rows.length > 0;
}

/** Where the new events of a webhook are stored, and from where it is moving there. Undefined: the webhook does not exist. */
export async function readCellOf(
  { query }: Queries,
  id: string,
): Promise<{ cell: number; movingFrom: number | null } | undefined> {
  const [row] = await query<{ cell: number; movingFrom: number | null }>({
    text: 'select cell, moving_from as "movingFrom" from webhooks where id = $1 and deleted_at is null',
    values: [id],
  });
  return row;
}

/** Whether any webhook is in a cell or is leaving it, deleted ones included. */
export async function hasWebhooks(query: Query, cell: number): Promise<boolean> {
  const rows = await query({
    text: 'select from webhooks where cell = $1 or moving_from = $1 limit 1',
    values: [cell],
  });
  return rows.length > 0;
}

/** Ids of webhooks in a cell that are neither deleted nor moving, oldest first. */
export async function readWebhooksIn({ query }: Queries, cell: number, limit: number): Promise<string[]> {
  const rows = await query<{ id: string }>({
    text: 'select id from webhooks where cell = $1 and deleted_at is null and moving_from is null order by created_at, id limit $2',
    values: [cell, limit],
  });
  return rows.map(({ id }) => id);
}
