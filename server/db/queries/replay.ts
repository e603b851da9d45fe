import type { DeliveryState } from '../../resources/events.ts';
import { uuidv7Time } from '../ids.ts';
import type { Database } from '../pool.ts';
import { arrayOf } from './sql.ts';

const pendingAgain = `state = 'pending', attempts = 0, available_at = now(), finished_at = null, reason = null`;

/** Records replay targets: claims read the webhooks that an agent is subscribed to and those replayed to it. */
const insertTargets = `
  insert into replay_targets (agent_id, webhook_id)
  select distinct agent_id, webhook_id from again
  where not exists (select from subscriptions s where s.webhook_id = again.webhook_id and s.agent_id = again.agent_id)
  on conflict do nothing`;

/** Makes a dead or done delivery pending again, with zero attempts. Returns false when no delivery with this id is dead or done. */
export async function replayDelivery({ query }: Pick<Database, 'query'>, id: string): Promise<boolean> {
  const rows = await query({
    text: `
      with again as (
        update deliveries set ${pendingAgain}
        where received_at = $1 and id = $2 and state in ('dead', 'done') returning agent_id, webhook_id
      ), targets as (${insertTargets})
      select from again`,
    values: [uuidv7Time(id), id],
  });
  return rows.length > 0;
}

/** Limit on the deliveries replayed by one statement. */
export const REPLAYED_MAX = 10_000;

/**
 * Replays all deliveries of an agent in one of these states, oldest first, at most REPLAYED_MAX. Returns how many. Call in a
 * transaction: joins are restricted so that each row is looked up in its own partition. Postgres assumes all partitions for each row
 * and would otherwise read every delivery.
 */
export async function replayDeliveries(
  { query }: Pick<Database, 'query'>,
  {
    agentId,
    state,
    webhookId,
  }: { agentId: string; state: Extract<DeliveryState, 'dead' | 'done'>; webhookId: string | null },
): Promise<number> {
  await query({ text: 'set local enable_hashjoin to off; set local enable_mergejoin to off' });
  const [row] = await query<{ count: number }>({
    text: `
      with finished as (
        select received_at, id, webhook_id from deliveries
        where agent_id = $1 and state = '${state}' and ($2::uuid is null or webhook_id = $2)
        order by received_at, id limit $3 for update skip locked
      ), again as (
        update deliveries d set ${pendingAgain} from finished f
        where d.received_at = f.received_at and d.id = f.id and d.webhook_id = f.webhook_id
        returning d.agent_id, d.webhook_id
      ), targets as (${insertTargets})
      select count(*)::int as count from again`,
    values: [agentId, webhookId, REPLAYED_MAX],
  });
  return row!.count;
}

/**
 * Creates deliveries of an event to these agents (null: to all agents subscribed to its webhook). Returns their ids; none when the
 * event does not exist.
 */
export async function deliverAgain(
  database: Pick<Database, 'query'>,
  eventId: string,
  agentIds: readonly string[] | null,
): Promise<string[]> {
  const rows = await database.query<{ id: string }>({
    text: `
      with made as (
        insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
        select delivery_id(e.id), e.webhook_id, a.id, e.id, e.received_at, e.bytes
        from events e
        join webhooks w on w.id = e.webhook_id
        join agents a on a.revoked_at is null and ($3::uuid[] is not null and a.id = any ($3)
          or $3 is null and exists (select from subscriptions s where s.webhook_id = e.webhook_id and s.agent_id = a.id))
        where e.received_at = $1 and e.id = $2
        returning id, agent_id, webhook_id
      ), targets as (
        insert into replay_targets (agent_id, webhook_id)
        select agent_id, webhook_id from made
        where not exists (select from subscriptions s where s.webhook_id = made.webhook_id and s.agent_id = made.agent_id)
        on conflict do nothing
      )
      select id from made`,
    values: [uuidv7Time(eventId), eventId, agentIds && arrayOf(agentIds)],
  });
  return rows.map((row) => row.id);
}
