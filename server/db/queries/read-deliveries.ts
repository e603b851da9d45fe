import { uuidv7Milliseconds } from '../../core/ids.ts';
import type { Database } from '../pool.ts';
import { isoText } from './iso-text.ts';

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

interface DeliveryFilter {
  agentId?: string | null;
  webhookId?: string | null;
  state?: DeliveryState | null;
  eventId?: string | null;
}

const text = (column: string) => `${isoText(column)} as ${column}`;

const record = `id, event_id, webhook_id, agent_id, state, attempts, reason,
  ${text('received_at')}, ${text('available_at')}, ${text('finished_at')}`;

/** Newest first; `before` is the id of the last delivery of the page before. A statement for each set of filters, planned for it. */
export function listDeliveries(
  database: Database,
  { agentId, webhookId, state, eventId }: DeliveryFilter,
  before: string | null,
  limit: number,
): Promise<DeliveryRecord[]> {
  const values: unknown[] = [limit];
  const value = (given: unknown) => `$${values.push(given)}`;
  const conditions = [
    agentId && `agent_id = ${value(agentId)}`,
    webhookId && `webhook_id = ${value(webhookId)}`,
    state && `state = ${value(state)}`,
    // The time is the event's own: it finds the partition.
    eventId && `deliveries.received_at = ${value(timeOf(eventId))} and event_id = ${value(eventId)}`,
    before && `(deliveries.received_at, id) < (${value(timeOf(before))}, ${value(before)}::uuid)`,
  ].filter(Boolean);
  return database.query<DeliveryRecord>({
    text: `
      select ${record} from deliveries
      where ${['true', ...conditions].join(' and ')}
      order by deliveries.received_at desc, id desc
      limit $1`,
    values,
  });
}

/** One; with an agent, only when it is that agent's. */
export async function findDelivery(
  { query }: Pick<Database, 'query'>,
  agentId: string | null,
  id: string,
): Promise<DeliveryRecord | undefined> {
  const [row] = await query<DeliveryRecord>({
    name: 'find-delivery',
    text: `select ${record} from deliveries
           where deliveries.received_at = $1 and id = $2 and ($3::uuid is null or agent_id = $3)`,
    values: [timeOf(id), id, agentId],
  });
  return row;
}

function timeOf(id: string): string {
  return new Date(uuidv7Milliseconds(id)).toISOString();
}
