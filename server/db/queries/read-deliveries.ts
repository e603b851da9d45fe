import { uuidv7Time } from '../ids.ts';
import type { Database } from '../pool.ts';
import { isoColumn } from './sql.ts';

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
  /** pending: when it becomes claimable; leased: when the lease expires. */
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

const record = `id, event_id, webhook_id, agent_id, state, attempts, reason,
  ${isoColumn('received_at')}, ${isoColumn('available_at')}, ${isoColumn('finished_at')}`;

/**
 * Up to this many pending or leased deliveries, a list reads all of them from the index deliveries_claimable. Walking from the newest
 * instead, past finished ones, reads an agent's whole history when hardly anything waits: 23,000 pages for 50,000 deliveries.
 */
const UNFINISHED_READ_MAX = 1_000;

/** Lists deliveries, newest first. `before`: id of the last delivery of the previous page. Planned for the given filters. */
export async function listDeliveries(
  database: Database,
  filter: DeliveryFilter,
  before: string | null,
  limit: number,
): Promise<DeliveryRecord[]> {
  const { agentId, webhookId, state, eventId } = filter;
  const values: unknown[] = [limit];
  const value = (given: unknown) => `$${values.push(given)}`;
  const conditions = [
    agentId && `agent_id = ${value(agentId)}`,
    webhookId && `webhook_id = ${value(webhookId)}`,
    state && `state = ${value(state)}`,
    // The event's time selects the partition.
    eventId && `deliveries.received_at = ${value(uuidv7Time(eventId))} and event_id = ${value(eventId)}`,
    before && `(deliveries.received_at, id) < (${value(uuidv7Time(before))}, ${value(before)}::uuid)`,
  ].filter(Boolean);
  const isUnfinished = state === 'pending' || state === 'leased';
  const readsAll = isUnfinished && !eventId && (await areFewUnfinished(database, filter));
  return database.query<DeliveryRecord>({
    text: `
      select ${record}
      from (
        select * from deliveries where ${['true', ...conditions].join(' and ')}
        ${readsAll ? 'offset 0' : ''}
      ) deliveries
      order by deliveries.received_at desc, id desc
      limit $1`,
    values,
  });
}

/** Whether at most UNFINISHED_READ_MAX deliveries are unfinished. Reads at most one row more than that. */
async function areFewUnfinished(
  database: Database,
  { agentId = null, webhookId = null }: DeliveryFilter,
): Promise<boolean> {
  const [row] = await database.query<{ few: boolean }>({
    text: `
      select count(*) <= ${UNFINISHED_READ_MAX} as few
      from (
        select from deliveries
        where state in ('pending', 'leased') and ($1::uuid is null or agent_id = $1) and ($2::uuid is null or webhook_id = $2)
        limit ${UNFINISHED_READ_MAX + 1}
      ) unfinished`,
    values: [agentId, webhookId],
  });
  return row!.few;
}

/** Finds a delivery; with an agent, only if it belongs to that agent. */
export async function findDelivery(
  { query }: Pick<Database, 'query'>,
  agentId: string | null,
  id: string,
): Promise<DeliveryRecord | undefined> {
  const [row] = await query<DeliveryRecord>({
    name: 'find-delivery',
    text: `select ${record} from deliveries
           where deliveries.received_at = $1 and id = $2 and ($3::uuid is null or agent_id = $3)`,
    values: [uuidv7Time(id), id, agentId],
  });
  return row;
}
