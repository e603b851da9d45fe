/** How many deliveries wait or are dead: bounded, since there may be millions. */
import type { Database } from '../pool.ts';

/** Rows that are counted of each kind. */
export const COUNTED_MAX = 10_000;
/** The index may hold many entries of finished deliveries that no vacuum has taken away yet. */
const TIMEOUT = '1s';

interface DeliveryCounts {
  pending: number;
  leased: number;
  dead: number;
  /** False: these are the least there can be. */
  exact: boolean;
}

/** Reads at most COUNTED_MAX index entries for the claimable and for the dead. Rejects when even that takes too long. */
export async function countDeliveries(
  database: Database,
  { agentId = null, webhookId = null }: { agentId?: string | null; webhookId?: string | null } = {},
): Promise<DeliveryCounts> {
  const scope = '($1::uuid is null or agent_id = $1) and ($2::uuid is null or webhook_id = $2)';
  const [row] = await database.transaction(async (query) => {
    await query({ text: `set local statement_timeout = '${TIMEOUT}'` });
    return query<DeliveryCounts & { read: number }>({
      text: `
        select
          count(*) filter (where state = 'pending')::int as pending,
          count(*) filter (where state = 'leased')::int as leased,
          (select count(*)::int from (select from deliveries where state = 'dead' and ${scope} limit ${COUNTED_MAX + 1}) d) as dead,
          count(*)::int as read
        from (select state from deliveries where state in ('pending', 'leased') and ${scope} limit ${COUNTED_MAX + 1}) d`,
      values: [agentId, webhookId],
    });
  });
  const { pending, leased, dead, read } = row!;
  return {
    pending,
    leased,
    dead: Math.min(dead, COUNTED_MAX),
    exact: read <= COUNTED_MAX && dead <= COUNTED_MAX,
  };
}
