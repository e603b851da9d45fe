import { uuidv7Time } from '../ids.ts';
import type { Database } from '../pool.ts';
import { isoColumn } from './sql.ts';

/** An event without its body; headers in their stored form. */
export interface EventRecord {
  id: string;
  webhook_id: string;
  received_at: string;
  source_ip: string;
  content_type: string | null;
  bytes: number;
  headers: Buffer;
}

/** Columns of `events e`. */
export const eventColumns = `e.id, e.webhook_id, host(e.source_ip) as source_ip, e.content_type, e.bytes, e.headers,
  ${isoColumn('e.received_at')}`;

/** Reads an event with its body; undefined when it does not exist or has no delivery to the agent. */
export async function findEvent(
  database: Pick<Database, 'query'>,
  agentId: string | null,
  id: string,
): Promise<(EventRecord & { body: Buffer }) | undefined> {
  const [row] = await database.query<EventRecord & { body: Buffer }>({
    name: 'find-event',
    text: `
      select ${eventColumns}, e.body from events e
      where e.received_at = $1 and e.id = $2
        and ($3::uuid is null or exists (
          select from deliveries d where d.received_at = e.received_at and d.event_id = e.id and d.agent_id = $3))`,
    values: [uuidv7Time(id), id, agentId],
  });
  return row;
}
