/**
 * What waits for an agent, and its room under `max_leased`, over all processes and machines. The limit is exact because everything that adds a
 * lease holds the lock on the agent's row. The lock and the count are separate statements: a single one would count in a snapshot that it
 * took before it waited for the lock. A claim of 10 takes 15 to 27 ms with a limit, 5 to 12 without (median, busy machine).
 */
import { summed, summedBy } from '../../connect/place.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { arrayOf } from '../../sql.ts';

/** SQL condition, true for every delivery, with which Postgres uses the index deliveries_due. */
const byTime = 'bytes >= 0';
/** SQL: from the deliveries that the agent can claim now, in the order of that index. @param agentId SQL expression of the agent's id */
export const due = (agentId: string) =>
  `from deliveries where ${byTime} and agent_id = ${agentId} and state in ('pending', 'leased') and available_at <= now()`;
/** SQL: one row for each delivery that the agent has under lease now. */
export const underLease = (agentId: string) =>
  `select from deliveries where ${byTime} and agent_id = ${agentId} and state = 'leased' and available_at > now()`;

/** Runs `work` in a transaction with the number of deliveries that the agent may still lease. No process adds a lease until it ends. */
export function withRoom<T>(
  database: Pick<Database, 'transaction'>,
  agentId: string,
  work: (query: Query, room: number) => Promise<T>,
): Promise<T> {
  return database.transaction(
    async (query) => {
      const max = await lockMaxLeased(query, agentId);
      if (max === null) return work(query, Number.POSITIVE_INFINITY);
      const [row] = await query<{ leased: number }>({
        name: 'count-leased',
        text: `select count(*)::int as leased from (${underLease('$1')} limit $2) counted`,
        values: [agentId, max],
        // Leases in a cell that is away are not counted: the agent would get nothing from the others.
        place: { each: summed, lenient: true },
      });
      return work(query, max - row!.leased);
    },
    { plan: 'keyed' },
  );
}

/** Locks the agent's row until the transaction ends. Returns its limit. */
export async function lockMaxLeased(query: Query, agentId: string): Promise<number | null> {
  const [row] = await query<{ max: number | null }>({
    name: 'lock-max-leased',
    text: 'select max_leased as max from agents where id = $1 for no key update',
    values: [agentId],
  });
  return row?.max ?? null;
}

/**
 * Returns those of the given agents that are not paused, can claim something now and are below `max_leased`. `claimableFrom` as in
 * ClaimOrder.
 */
export async function agentsWithWork(
  database: Database,
  agents: readonly { id: string; claimableFrom: string }[],
): Promise<string[]> {
  const rows = await database.query<{ id: string }>({
    name: 'agents-with-work',
    plan: 'keyed',
    text: `
      select a.id
      from unnest($1::uuid[], $2::timestamptz[]) a (id, claimable_from)
      join agents on agents.id = a.id
      where paused_at is null and exists (select ${due('a.id')} and available_at >= a.claimable_from)
        and (max_leased is null or max_leased > (select count(*) from (${underLease('a.id')} limit max_leased) counted))`,
    values: [arrayOf(agents.map(({ id }) => id)), arrayOf(agents.map(({ claimableFrom }) => claimableFrom))],
    place: { each: summedBy(({ id }) => id), lenient: true },
  });
  return rows.map((row) => row.id);
}
