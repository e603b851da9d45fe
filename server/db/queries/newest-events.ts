/** The newest events, for live views. */
import type { Database } from '../pool.ts';
import { isoColumn } from './sql.ts';

/** An event as a live view shows it; body and headers are not read. */
export interface NewEvent {
  id: string;
  webhook_id: string;
  received_at: string;
  source_ip: string;
  content_type: string | null;
  bytes: number;
}

const columns = `e.id, e.webhook_id, host(e.source_ip) as source_ip, left(e.content_type, 200) as content_type, e.bytes,
  ${isoColumn('e.received_at')}`;

/**
 * Reads the newest events since `fromMs`, newest first, for each watched webhook (null: all webhooks).
 * @param limit maximum number of events for each watched webhook.
 */
export async function readNewest(
  database: Database,
  watched: readonly (string | null)[],
  fromMs: number,
  limit: number,
): Promise<{ watched: string | null; event: NewEvent }[]> {
  const rows = await database.query<NewEvent & { watched: string | null }>({
    name: 'newest-events',
    text: `
      select w.id as watched, e.*
      from unnest($1::uuid[]) as w (id)
      cross join lateral (
        select ${columns} from events e
        where e.received_at >= $2 and (w.id is null or e.webhook_id = w.id)
        order by e.received_at desc, e.id desc
        limit $3
      ) e
      order by e.received_at desc, e.id desc`,
    values: [`{${watched.map((id) => id ?? 'null').join(',')}}`, new Date(fromMs).toISOString(), limit],
    plan: 'once',
  });
  return rows.map(({ watched, ...event }) => ({ watched, event }));
}
