import { uuidv7Milliseconds } from '../../core/ids.ts';
import type { Database } from '../pool.ts';

export const deliveryStates = ['pending', 'leased', 'done', 'dead'] as const;
export type DeliveryState = (typeof deliveryStates)[number];

export interface DeliveryRecord {
  id: string;
  event_id: string;
  webhook_id: string;
  agent_id: string;
  state: DeliveryState;
  attempts: number;
  received_at: string;
  /** pending: claimable from then on; leased: the lease ends then. */
  available_at: string;
  finished_at: string | null;
  reason: string | null;
}

export interface DeliveryFilter {
  agentId: string | null;
  webhookId: string | null;
  state: DeliveryState | null;
}

/** Newest first; `before` is the id of the last delivery of the page before. */
export function listDeliveries(
  database: Database,
  { agentId, webhookId, state }: DeliveryFilter,
  before: string | null,
  limit: number,
): Promise<DeliveryRecord[]> {
  const text = (column: string) =>
    `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column}`;
  return database.query<DeliveryRecord>({
    name: 'list-deliveries',
    text: `
      select id, event_id, webhook_id, agent_id, state, attempts, reason,
        ${text('received_at')}, ${text('available_at')}, ${text('finished_at')}
      from deliveries
      where ($1::uuid is null or agent_id = $1) and ($2::uuid is null or webhook_id = $2) and ($3::text is null or state = $3)
        and ($4::timestamptz is null or (deliveries.received_at, id) < ($4, $5::uuid))
      order by deliveries.received_at desc, id desc
      limit $6`,
    values: [agentId, webhookId, state, before && new Date(uuidv7Milliseconds(before)).toISOString(), before, limit],
  });
}
