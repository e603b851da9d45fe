/** A simple queue on the same table: two SQL statements and no server in between. Approximately the maximum that the database allows. */
import type pg from 'pg';
import type { Backlog } from './backlog.ts';

/** Leases up to `max` deliveries, then finishes them; resolves with their number. */
export async function drainBySql(client: pg.Client, { agentId, webhookId }: Backlog, max: number): Promise<number> {
  const { rows } = await client.query<{ id: string; received_at: string }>({
    name: 'lease',
    text: `
      update deliveries d
      set state = 'leased', attempts = d.attempts + 1, available_at = now() + interval '10 minutes'
      from (
        select received_at, id, webhook_id from deliveries
        where agent_id = $1 and webhook_id = $2 and state in ('pending', 'leased') and available_at <= now()
        order by available_at
        limit $3
        for update skip locked
      ) c
      where d.received_at = c.received_at and d.id = c.id and d.webhook_id = c.webhook_id
      returning d.id, d.received_at::text`,
    values: [agentId, webhookId, max],
  });
  if (rows.length === 0) return 0;
  await client.query({
    name: 'finish',
    text: `
      update deliveries d
      set state = 'done', finished_at = now()
      from unnest($1::uuid[], $2::timestamptz[]) r (id, received_at)
      where d.received_at = r.received_at and d.id = r.id and d.webhook_id = $3 and d.state = 'leased'`,
    values: [rows.map(({ id }) => id), rows.map((row) => row.received_at), webhookId],
  });
  return rows.length;
}
