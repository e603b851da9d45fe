import { uuidv7Milliseconds } from '../../core/ids.ts';
import type { Database } from '../pool.ts';

/** An event without its body; headers as they are stored. */
export interface EventRecord {
  id: string;
  webhook_id: string;
  received_at: string;
  source_ip: string;
  content_type: string | null;
  bytes: number;
  headers: Buffer;
}

/** Which events: those that were delivered to this agent, or all of them. */
export interface EventScope {
  agentId: string | null;
  webhookId: string | null;
}

const columns = `e.id, e.webhook_id, host(e.source_ip) as source_ip, e.content_type, e.bytes, e.headers,
  to_char(e.received_at at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as received_at`;

/** Newest first; `before` is the id of the last event of the page before. */
export function listEvents(
  database: Database,
  { agentId, webhookId }: EventScope,
  before: string | null,
  limit: number,
): Promise<EventRecord[]> {
  const values = [webhookId, ...position(before), limit];
  if (agentId === null)
    return database.query<EventRecord>({
      name: 'list-events',
      text: `
        select ${columns} from events e
        where ($1::uuid is null or e.webhook_id = $1)
          and ($2::timestamptz is null or (e.received_at, e.id) < ($2, $3::uuid))
        order by e.received_at desc, e.id desc
        limit $4`,
      values,
    });
  // From its deliveries, so that an agent with few events does not walk through everybody's.
  return database.query<EventRecord>({
    name: 'list-events-of-agent',
    text: `
      select ${columns}
      from (
        select distinct received_at, event_id, webhook_id from deliveries
        where agent_id = $5 and ($1::uuid is null or webhook_id = $1)
          and ($2::timestamptz is null or (received_at, event_id) < ($2, $3::uuid))
        order by received_at desc, event_id desc
        limit $4
      ) d
      join events e on e.received_at = d.received_at and e.id = d.event_id and e.webhook_id = d.webhook_id
      order by e.received_at desc, e.id desc`,
    values: [...values, agentId],
  });
}

/** One event with its body; undefined when it does not exist, or never was on its way to the agent. */
export async function findEvent(
  database: Database,
  agentId: string | null,
  id: string,
): Promise<(EventRecord & { body: Buffer }) | undefined> {
  const [row] = await database.query<EventRecord & { body: Buffer }>({
    name: 'find-event',
    text: `
      select ${columns}, e.body from events e
      where e.received_at = $1 and e.id = $2
        and ($3::uuid is null or exists (
          select from deliveries d where d.received_at = e.received_at and d.event_id = e.id and d.agent_id = $3))`,
    values: [...position(id), agentId],
  });
  return row;
}

/** A UUIDv7 tells its time, and the time its partition. */
function position(id: string | null): [string | null, string | null] {
  return id === null ? [null, null] : [new Date(uuidv7Milliseconds(id)).toISOString(), id];
}
