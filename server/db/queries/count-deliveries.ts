/** Counts waiting and dead deliveries: exactly up to a limit, since there may be millions, and by estimate beyond it. */
import type { Database, Query } from '../pool.ts';
import { sampleDeliveries } from './sample-deliveries.ts';

/** Limit on the rows counted of each kind. */
export const COUNTED_MAX = 10_000;
/** Timeout of one statement. The index may hold many entries of finished deliveries that vacuum has not removed yet. */
const TIMEOUT = '1s';

export interface DeliveryCounts {
  pending: number;
  leased: number;
  dead: number;
  /** False: counting stopped at COUNTED_MAX. */
  exact: boolean;
}

interface Scope {
  agentId?: string | null;
  webhookId?: string | null;
}

/**
 * Counts deliveries. Reads at most COUNTED_MAX index entries for claimable and for dead deliveries each; beyond that the counts are
 * lower bounds. Rejects on timeout.
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
 * Like countDeliveries, but beyond COUNTED_MAX returns an estimate from a sample of the table, never below the count. Returns the
 * count when the sample times out.
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
  // Keep complete counts: a sample often misses a few rows among many.
  const waiting = counted.pending + counted.leased > COUNTED_MAX;
  return {
    pending: waiting ? Math.max(counted.pending, estimate('pending')) : counted.pending,
    leased: waiting ? Math.max(counted.leased, estimate('leased')) : counted.leased,
    dead: counted.dead < COUNTED_MAX ? counted.dead : Math.max(counted.dead, estimate('dead')),
    exact: false,
  };
}

/** Runs a transaction whose statements are cancelled after TIMEOUT. */
export function withinTimeout<T>(database: Database, work: (query: Query) => Promise<T>): Promise<T> {
  return database.transaction(async (query) => {
    await query({ text: `set local statement_timeout = '${TIMEOUT}'` });
    return work(query);
  });
}
