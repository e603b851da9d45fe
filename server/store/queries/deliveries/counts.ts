/**
 * Counts waiting and dead deliveries: exactly up to a limit, since there may be millions, and by estimate beyond it.
 *
 * Waiting deliveries are in one table of their own, so a scan of it counts them: 15 ms of CPU for 100,000 of all agents. An index gains
 * nothing (51 ms). Counts that fan-out, claims and acks keep would make them wait for each other's commits.
 */

import type { z } from 'zod';
import { COUNTED_MAX, type deliveryCountsSchema, WAITING_COUNTED_MAX } from '../../../model/events.ts';
import { concatenated, summed } from '../../connect/place.ts';
import type { Database, Query } from '../../connect/pool.ts';

/** Timeout of one statement. The index may hold many entries of finished deliveries that vacuum has not removed yet. */
const TIMEOUT = '1s';

/** `exact` false: counting stopped at a limit. */
type DeliveryCounts = z.output<typeof deliveryCountsSchema>;

interface Scope {
  agentId?: string | null;
  webhookId?: string | null;
}

/** Deliveries to count at most: pending and leased ones, and dead letters. */
export const limits = { waiting: WAITING_COUNTED_MAX as number, dead: COUNTED_MAX as number };

/** SQL: in a scope. @param agentId placeholder; its value null: of all agents */
const inScope = (agentId: string, webhookId: string) =>
  `(${agentId}::uuid is null or agent_id = ${agentId}) and (${webhookId}::uuid is null or webhook_id = ${webhookId})`;

/** Counts deliveries up to the limits; beyond them the counts are lower bounds. Rejects on timeout. */
export async function countDeliveries(
  database: Database,
  { agentId = null, webhookId = null }: Scope = {},
  max = limits,
): Promise<DeliveryCounts> {
  const scope = inScope('$1', '$2');
  const [row] = await withinTimeout(database, (query) =>
    query<Omit<DeliveryCounts, 'exact'> & { read: number }>({
      text: `
        select
          (count(*) - count(*) filter (where state = 'leased'))::int as pending,
          count(*) filter (where state = 'leased')::int as leased,
          (select count(*)::int from (select from deliveries where state = 'dead' and ${scope} limit ${max.dead + 1}) d) as dead,
          count(*)::int as read
        from (select state from deliveries where state in ('pending', 'leased') and ${scope} limit ${max.waiting + 1}) d`,
      values: [agentId, webhookId],
      place: { each: summed, lenient: true },
    }),
  );
  const { pending, leased, dead, read } = row!;
  return {
    pending,
    leased,
    dead: Math.min(dead, max.dead),
    exact: read <= max.waiting && dead <= max.dead,
  };
}

/**
 * Like countDeliveries, but beyond the limits returns an estimate from a sample of the table, never below the count. Returns the
 * count when the sample times out.
 */
export async function countOrEstimateDeliveries(
  database: Database,
  scope: Scope = {},
  max = limits,
): Promise<DeliveryCounts> {
  const counted = await countDeliveries(database, scope, max);
  if (counted.exact) return counted;
  // Keep complete counts: a sample often misses a few rows among many.
  const beyond = { waiting: counted.pending + counted.leased > max.waiting, dead: counted.dead >= max.dead };
  const sampled = await withinTimeout(database, (query) => sampleDeliveries(query, beyond, { scope })).catch(() => []);
  const estimate = (state: string) => total(sampled, (row) => row.state === state);
  return {
    pending: Math.max(counted.pending, estimate('pending')),
    leased: Math.max(counted.leased, estimate('leased')),
    dead: Math.max(counted.dead, estimate('dead')),
    exact: false,
  };
}

/** Runs a transaction whose statements are cancelled after TIMEOUT. */
export function withinTimeout<T>(database: Database, work: (query: Query) => Promise<T>): Promise<T> {
  return database.transaction(async (query) => {
    await query({ text: `set local statement_timeout = '${TIMEOUT}'`, place: 'session' });
    return work(query);
  });
}

/** What a sample reads: the table of the deliveries that wait, or those of all others. */
const samples = {
  waiting: { states: "'pending', 'leased'", tables: 'like', blocksMax: 1_000 },
  dead: { states: "'dead'", tables: 'not like', blocksMax: 4_000 },
} as const;
interface SampleOptions {
  scope?: Scope;
  /** Estimates for each agent. */
  byAgent?: boolean;
  blocksMax?: number;
}

/** Estimated deliveries of one state. */
interface SampledDeliveries {
  /** Null: of all agents together. */
  agentId: string | null;
  state: 'pending' | 'leased' | 'dead';
  deliveries: number;
}

/**
 * Estimates unfinished deliveries from some blocks of their tables, 8 MiB of waiting ones and 32 MiB of others; counts a smaller table
 * completely. Reads the same blocks each time, so that the estimate follows the table and does not vary by chance. Planner statistics are
 * missing after a bulk load, and treat state, agent and webhook as independent.
 * @param blocksMax for tests
 */
export async function sampleDeliveries(
  query: Query,
  of: Partial<Record<keyof typeof samples, boolean>>,
  { scope: { agentId = null, webhookId = null } = {}, byAgent = false, blocksMax }: SampleOptions,
): Promise<SampledDeliveries[]> {
  const sampled: SampledDeliveries[] = [];
  for (const one of ['waiting', 'dead'] as const) {
    if (!of[one]) continue;
    const { states, tables, ...sample } = samples[one];
    const [size] = await query<{ blocks: number }>({
      text: `select (sum(pg_relation_size(relid)) / current_setting('block_size')::int)::float8 as blocks
             from pg_partition_tree('deliveries') where relid::text ${tables} '%deliveries_live%'`,
      place: { each: summed, lenient: true },
    });
    const fraction = Math.min(1, (blocksMax ?? sample.blocksMax) / Math.max(1, size!.blocks));
    const rows = await query<SampledDeliveries>({
      text: `
        select ${byAgent ? 'agent_id' : 'null'} as "agentId", state, round(count(*) / $1::float8)::float8 as deliveries
        from deliveries tablesample system (100 * $1::float8) repeatable (1)
        where state in (${states}) and ${inScope('$2', '$3')}
        group by ${byAgent ? 'agent_id, ' : ''}state`,
      values: [fraction, agentId, webhookId],
      place: { each: concatenated, lenient: true },
    });
    sampled.push(...rows);
  }
  return sampled;
}

/** Sums the deliveries of some rows. */
export function total<Row extends Pick<SampledDeliveries, 'state' | 'deliveries'>>(
  rows: readonly Row[],
  isMeant: (row: Row) => boolean,
): number {
  return rows.filter(isMeant).reduce((sum, { deliveries }) => sum + deliveries, 0);
}
