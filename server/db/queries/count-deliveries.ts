/** How many deliveries wait or are dead: counted up to a bound, since there may be millions, and estimated beyond it. */
import type { Database } from '../pool.ts';
import { sampleDeliveries } from './sample-deliveries.ts';

/** Rows that are counted of each kind. */
export const COUNTED_MAX = 10_000;
/** Of one statement. The index may hold many entries of finished deliveries that no vacuum has taken away yet. */
const TIMEOUT = '1s';

export interface DeliveryCounts {
  pending: number;
  leased: number;
  dead: number;
  /** False: counting ended at COUNTED_MAX. */
  exact: boolean;
}

interface Scope {
  agentId?: string | null;
  webhookId?: string | null;
}

/**
 * Reads at most COUNTED_MAX index entries for the claimable and for the dead. Where that is not all, the counts are the least there
 * can be. Rejects when even that takes too long.
 */
export async function countDeliveries(
  database: Database,
  { agentId = null, webhookId = null }: Scope = {},
): Promise<DeliveryCounts> {
  const scope = '($1::uuid is null or agent_id = $1) and ($2::uuid is null or webhook_id = $2)';
  const [row] = await withinTimeout(database, (query) =>
    query<Omit<DeliveryCounts, 'exact'> & { read: number }>({
      text: `
        select
          count(*) filter (where state = 'pending')::int as pending,
          count(*) filter (where state = 'leased')::int as leased,
          (select count(*)::int from (select from deliveries where state = 'dead' and ${scope} limit ${COUNTED_MAX + 1}) d) as dead,
          count(*)::int as read
        from (select state from deliveries where state in ('pending', 'leased') and ${scope} limit ${COUNTED_MAX + 1}) d`,
      values: [agentId, webhookId],
    }),
  );
  const { pending, leased, dead, read } = row!;
  return {
    pending,
    leased,
    dead: Math.min(dead, COUNTED_MAX),
    exact: read <= COUNTED_MAX && dead <= COUNTED_MAX,
  };
}

/**
 * The same; beyond COUNTED_MAX an estimate from a sample of the table, never below what was counted. Where the sample takes too long,
 * what was counted.
 */
export async function countOrEstimateDeliveries(database: Database, scope: Scope = {}): Promise<DeliveryCounts> {
  const counted = await countDeliveries(database, scope);
  if (counted.exact) return counted;
  const sampled = await withinTimeout(database, (query) => sampleDeliveries(query)).catch(() => []);
  const estimate = (state: string) =>
    sampled
      .filter((row) => row.state === state && (scope.agentId ?? row.agentId) === row.agentId)
      .filter((row) => (scope.webhookId ?? row.webhookId) === row.webhookId)
      .reduce((sum, { deliveries }) => sum + deliveries, 0);
  // What was counted to its end stays: few rows among many are often missed by a sample.
  const waiting = counted.pending + counted.leased > COUNTED_MAX;
  return {
    pending: waiting ? Math.max(counted.pending, estimate('pending')) : counted.pending,
    leased: waiting ? Math.max(counted.leased, estimate('leased')) : counted.leased,
    dead: counted.dead < COUNTED_MAX ? counted.dead : Math.max(counted.dead, estimate('dead')),
    exact: false,
  };
}

/** A transaction whose statements are cancelled after TIMEOUT. */
export function withinTimeout<T>(database: Database, work: (query: Database['query']) => Promise<T>): Promise<T> {
  return database.transaction(async (query) => {
    await query({ text: `set local statement_timeout = '${TIMEOUT}'` });
    return work(query);
  });
}
