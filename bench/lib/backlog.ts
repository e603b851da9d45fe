/**
 * A backlog of pending deliveries, inserted with SQL like the server's, because sending the events would take longer than
 * draining them.
 */
import type { Database } from '../../server/store/connect/pool.ts';

/** The rows that the fan-out would have created for the same events. */
export interface Backlog {
  webhookId: string;
  agentId: string;
  rows: number;
  bodyBytes: number;
}

/** Timeout of statements that write a whole backlog. */
export const FILL_TIMEOUT_MS = 900_000;

const HEADERS =
  'content-type: application/json\\nuser-agent: GitHub-Hookshot/044aadd\\nx-github-event: push\\naccept: */*';

/** Inserts the events, with times in the last minutes. The fan-out creates their deliveries. */
export async function storeEvents(
  database: Database,
  { webhookId, rows, bodyBytes }: Omit<Backlog, 'agentId'>,
): Promise<void> {
  const partRows = 10_000;
  for (let from = 0; from < rows; from += partRows)
    await database.query({
      text: `
        insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
        select (lpad(to_hex(ms), 12, '0') || '7' || substr(replace(gen_random_uuid()::text, '-', ''), 14))::uuid,
          $1::uuid, to_timestamp(ms / 1000.0), '192.0.2.1', convert_to(E'${HEADERS}', 'UTF8'), 'application/json',
          convert_to('{"data":"' || rpad('', $2::int - 11, md5(i::text)) || '"}', 'UTF8'), $2::int
        from generate_series($3::int, $4::int) i
        cross join lateral (select (extract(epoch from date_trunc('minute', now() - interval '5 minutes')) * 1000)::bigint + i as ms) t`,
      values: [webhookId, bodyBytes, from, Math.min(from + partRows, rows) - 1],
      timeoutMs: FILL_TIMEOUT_MS,
    });
}

/** Counts the acknowledged deliveries, of all agents. */
export async function countDone(database: Database): Promise<number> {
  const [row] = await database.query<{ count: number }>({
    text: `select count(*)::int as count from deliveries where state = 'done'`,
  });
  return row!.count;
}

/** Recreates the deliveries of the stored events as pending, with rows, indexes and statistics as after sending. */
export async function renewDeliveries(database: Database, { webhookId, agentId, rows }: Backlog): Promise<void> {
  await database.query({ text: 'truncate deliveries' });
  await database.query({
    text: `
      insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
      select delivery_id(id), webhook_id, $2::uuid, id, received_at, bytes, received_at
      from (select * from events where webhook_id = $1 order by received_at limit $3::bigint) e`,
    values: [webhookId, agentId, rows],
    timeoutMs: FILL_TIMEOUT_MS,
  });
  await database.query({ text: 'vacuum analyze deliveries', timeoutMs: FILL_TIMEOUT_MS });
  await database.query({ text: 'checkpoint', timeoutMs: FILL_TIMEOUT_MS });
}
