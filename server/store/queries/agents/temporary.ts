/** Temporary agents: their expiry, and the removal of those that are revoked. */
import { summed } from '../../connect/place.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';

/** Deliveries deleted in one transaction, see AT_A_TIME of retention/unsettled.ts. */
const BATCH = 1_000;

/** Time from the revocation of a temporary agent to the removal of its deliveries: a transaction in progress may still add some. */
const REMOVED_AFTER_SECONDS = 60;

/** Locks a temporary agent that was last seen before this time (Unix milliseconds), if there is one. Agents locked by others are skipped. */
export async function lockExpiredAgent(query: Query, beforeMs: number): Promise<string | undefined> {
  const [row] = await query<{ id: string }>({
    text: `
      select id from agents
      where temporary and revoked_at is null and coalesce(last_seen_at, created_at) < $1::timestamptz
      order by created_at
      limit 1
      for no key update skip locked`,
    values: [new Date(beforeMs).toISOString()],
  });
  return row?.id;
}

/**
 * Deletes a batch of deliveries of one revoked temporary agent, and the agent with the last batch. Returns false when there is no such
 * agent.
 *
 * The two statements join by partition key, without hash or merge joins: Postgres would otherwise read every delivery.
 */
export function removeRevokedAgent({ transaction }: Pick<Database, 'transaction'>, nowMs: number): Promise<boolean> {
  return transaction(async (query) => {
    const [agent] = await query<{ id: string }>({
      text: `
        select id from agents
        where temporary and revoked_at < $1::timestamptz
        order by revoked_at
        limit 1
        for update skip locked`,
      values: [new Date(nowMs - REMOVED_AFTER_SECONDS * 1000).toISOString()],
    });
    if (agent === undefined) return false;
    await query({ text: 'set local enable_hashjoin to off; set local enable_mergejoin to off', place: 'session' });
    const [deleted] = await query<{ count: number }>({
      text: `
        with batch as (
          select received_at, id, webhook_id from deliveries where agent_id = $1 order by received_at, id limit ${BATCH}
        ), deleted as (
          delete from deliveries d using batch b
          where d.received_at = b.received_at and d.id = b.id and d.webhook_id = b.webhook_id
          returning 1
        )
        select count(*)::int as count from deleted`,
      values: [agent.id],
      place: { each: summed },
    });
    if (deleted!.count < BATCH) await query({ text: 'delete from agents where id = $1', values: [agent.id] });
    return true;
  });
}

/** Reads the ids of all temporary agents, revoked ones too: they have no series of metrics. */
export async function readTemporaryAgents({ query }: Queries): Promise<Set<string>> {
  const rows = await query<{ id: string }>({ text: 'select id from agents where temporary' });
  return new Set(rows.map(({ id }) => id));
}
