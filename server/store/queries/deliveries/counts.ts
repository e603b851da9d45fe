/**
 * Counts waiting and dead deliveries: exactly up to a limit, and by estimate beyond it. A scan of 100,000 waiting deliveries takes 15 ms of
 * CPU, by an index 51 ms. Stored counts would make fan-out, claims and acks wait for each other's commits.
 */
import type { z } from 'zod';
import { DELIVERIES_COUNTED_MAX, type deliveryCountsSchema } from '../../../model/events.ts';
import { concatenated, summed } from '../../connect/place.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { readWaiting } from '../agents/activity.ts';
import { countHeld } from '../claims/held.ts';

/** Timeout of one statement. The index may hold many entries of finished deliveries that vacuum has not removed yet. */
const TIMEOUT = '1s';

/** `exact` false: counting stopped at a limit. */
type DeliveryCounts = z.output<typeof deliveryCountsSchema>;

interface Scope {
  agentId?: string | null;
  webhookId?: string | null;
}

/** Limits on the deliveries that are counted: pending and leased ones together, and dead letters. */
const limits = { waiting: DELIVERIES_COUNTED_MAX as number, dead: DELIVERIES_COUNTED_MAX as number };

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
  // By the index deliveries_due: in the order of claims, the rows of an agent of many webhooks lie apart (46 ms for 100,000, 23 by age).
  const ofAgent = agentId !== null && webhookId === null ? 'and bytes >= 0 order by available_at' : '';
  const [row] = await withinTimeout(database, (query) =>
    query<Omit<DeliveryCounts, 'exact'> & { read: number }>({
      text: `
        select
          (count(*) - count(*) filter (where state = 'leased'))::int as pending,
          count(*) filter (where state = 'leased')::int as leased,
          (select count(*)::int from (select from deliveries where state = 'dead' and ${scope} limit ${max.dead + 1}) d) as dead,
          count(*)::int as read
        from (select state from deliveries where state in ('pending', 'leased') and ${scope} ${ofAgent} limit ${max.waiting + 1}) d`,
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
  const estimates = { pending: estimate('pending'), leased: estimate('leased'), dead: estimate('dead') };
  return { ...atLeast(counted, estimates), exact: false };
}

/** Runs a transaction whose statements are cancelled after TIMEOUT. */
export function withinTimeout<T>(database: Database, work: (query: Query) => Promise<T>): Promise<T> {
  return database.transaction(async (query) => {
    await query({ text: `set local statement_timeout = '${TIMEOUT}'`, place: 'session' });
    return work(query);
  });
}

/** What a sample reads: the table of pending and leased deliveries, or the tables of finished ones. */
const samples = {
  waiting: { states: "'pending', 'leased'", tables: 'like' },
  dead: { states: "'dead'", tables: 'not like' },
} as const;
/** Blocks of a sample: 8 MiB. */
const SAMPLED_BLOCKS_MAX = 1_000;

/** Estimated deliveries of one state. */
interface SampledDeliveries {
  /** Null: of all agents together. */
  agentId: string | null;
  state: 'pending' | 'leased' | 'dead';
  deliveries: number;
}

/**
 * Estimates unfinished deliveries from SAMPLED_BLOCKS_MAX blocks of their tables; counts a smaller table completely. Reads the same blocks
 * each time, so that the estimate follows the table and does not vary by chance. Planner statistics are missing after a bulk load, and treat
 * state, agent and webhook as independent.
 * @param blocksMax for tests
 */
export async function sampleDeliveries(
  query: Query,
  of: Partial<Record<keyof typeof samples, boolean>>,
  {
    scope: { agentId = null, webhookId = null } = {},
    byAgent = false,
    blocksMax = SAMPLED_BLOCKS_MAX,
  }: { scope?: Scope; byAgent?: boolean; blocksMax?: number },
): Promise<SampledDeliveries[]> {
  const sampled: SampledDeliveries[] = [];
  for (const one of ['waiting', 'dead'] as const) {
    if (!of[one]) continue;
    const { states, tables } = samples[one];
    const [size] = await query<{ blocks: number }>({
      text: `select (sum(pg_relation_size(relid)) / current_setting('block_size')::int)::float8 as blocks
             from pg_partition_tree('deliveries') where relid::text ${tables} '%deliveries_live%'`,
      place: { each: summed, lenient: true },
    });
    const fraction = Math.min(1, blocksMax / Math.max(1, size!.blocks));
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

function total(rows: readonly SampledDeliveries[], isMeant: (row: SampledDeliveries) => boolean): number {
  return rows.filter(isMeant).reduce((sum, { deliveries }) => sum + deliveries, 0);
}

interface AgentDepth {
  agentId: string;
  pending: number;
  /** See isHeld. */
  held: number;
  leased: number;
  dead: number;
  /**
   * When its oldest claimable delivery that a filter cannot drop became claimable, Unix milliseconds; null: none waits, or the agent is
   * paused.
   */
  waitingSinceMs: number | null;
}

export interface DeliveryDepths {
  /** Only agents that have waiting or dead deliveries. */
  agents: AgentDepth[];
  exact: boolean;
}

/** Reads deliveries up to the limits, and a sample when there are more. Each statement has a timeout. */
export function readDeliveryDepths(database: Database, max = limits): Promise<DeliveryDepths> {
  return withinTimeout(database, async (query) => {
    const counted = await countByAgent(query, max);
    const beyond = {
      waiting: total(counted, ({ state }) => state !== 'dead') > max.waiting,
      dead: total(counted, ({ state }) => state === 'dead') > max.dead,
    };
    const exact = !beyond.waiting && !beyond.dead;
    const depths = fold(counted);
    const sampled = exact ? [] : await sampleDeliveries(query, beyond, { byAgent: true });
    for (const [agentId, estimate] of fold(sampled))
      depths.set(agentId, atLeast(depths.get(agentId) ?? none(agentId), estimate));
    for (const { agentId, held } of await countHeld({ query }, max.waiting))
      depths.set(agentId, { ...(depths.get(agentId) ?? none(agentId)), held });
    // A partial count and a sample may have missed an agent.
    for (const { agent_id: agentId, since, paused } of await readWaiting(
      { query },
      exact ? [...depths.keys()] : null,
    )) {
      if (paused) continue;
      const depth = depths.get(agentId) ?? { ...none(agentId), pending: 1 };
      depths.set(agentId, { ...depth, waitingSinceMs: Date.parse(since) });
    }
    return { agents: [...depths.values()], exact };
  });
}

function countByAgent(query: Query, max: typeof limits): Promise<SampledDeliveries[]> {
  const waiting = `select agent_id, state from deliveries where state in ('pending', 'leased') limit ${max.waiting + 1}`;
  // In the order of their index, which has all that is asked for.
  const dead = `select agent_id, 'dead' from deliveries where state = 'dead' order by received_at desc, id desc limit ${max.dead + 1}`;
  return query<SampledDeliveries>({
    text: `
      select agent_id as "agentId", state, count(*)::int as deliveries
      from ((${waiting}) union all (${dead})) d
      group by agent_id, state`,
    place: { each: concatenated, lenient: true },
  });
}

function none(agentId: string): AgentDepth {
  return { agentId, pending: 0, held: 0, leased: 0, dead: 0, waitingSinceMs: null };
}

function fold(rows: readonly SampledDeliveries[]): Map<string, AgentDepth> {
  const depths = new Map<string, AgentDepth>();
  for (const { agentId, state, deliveries } of rows) {
    const depth = depths.get(agentId!) ?? none(agentId!);
    depths.set(agentId!, { ...depth, [state]: depth[state] + deliveries });
  }
  return depths;
}

/** Combines a partial count with an estimate: the count is a lower bound, and the sample may miss a few rows among many. */
function atLeast<Counts extends Pick<AgentDepth, 'pending' | 'leased' | 'dead'>>(
  counted: Counts,
  estimate: Pick<AgentDepth, 'pending' | 'leased' | 'dead'>,
): Counts {
  return {
    ...counted,
    pending: Math.max(counted.pending, estimate.pending),
    leased: Math.max(counted.leased, estimate.leased),
    dead: Math.max(counted.dead, estimate.dead),
  };
}
