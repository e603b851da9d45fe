/** Delivery backlog of each agent, for the metrics page. */
import type { Database, Query } from '../pool.ts';
import { readAgentActivity } from './agent-activity.ts';
import { COUNTED_MAX, withinTimeout } from './count-deliveries.ts';
import { sampleDeliveries } from './sample-deliveries.ts';

export interface AgentDepth {
  agentId: string;
  pending: number;
  leased: number;
  dead: number;
  /** When the agent's oldest claimable delivery became claimable, Unix milliseconds; null: no delivery waits. */
  waitingSinceMs: number | null;
}

export interface DeliveryDepths {
  /** Only agents that have waiting or dead deliveries. */
  agents: AgentDepth[];
  /** False: more than COUNTED_MAX wait or are dead, and the numbers are estimates. */
  exact: boolean;
}

interface Counted {
  agentId: string;
  state: 'pending' | 'leased' | 'dead';
  deliveries: number;
  sinceMs: number | null;
}

/** Reads at most COUNTED_MAX waiting and COUNTED_MAX dead deliveries, and a sample when there are more. Each statement has a timeout. */
export function readDeliveryDepths(database: Database): Promise<DeliveryDepths> {
  return withinTimeout(database, async (query) => {
    const counted = await countByAgent(query);
    const waiting = total(counted, ({ state }) => state !== 'dead');
    const dead = total(counted, ({ state }) => state === 'dead');
    const depths = fold(counted);
    if (waiting <= COUNTED_MAX && dead <= COUNTED_MAX) return { agents: [...depths.values()], exact: true };
    const sampled = (await sampleDeliveries(query)).map((row) => ({ ...row, sinceMs: null }));
    for (const [agentId, estimate] of fold(sampled)) {
      const known = depths.get(agentId);
      depths.set(agentId, known === undefined ? estimate : atLeast(known, estimate));
    }
    if (waiting > COUNTED_MAX) await findOldest(query, depths);
    return { agents: [...depths.values()], exact: false };
  });
}

function countByAgent(query: Query): Promise<Counted[]> {
  const rows = (states: string) =>
    `select agent_id, state, available_at from deliveries where state in (${states}) limit ${COUNTED_MAX + 1}`;
  return query<Counted>({
    text: `
      select agent_id as "agentId", state, count(*)::int as deliveries,
        (extract(epoch from min(available_at) filter (where state <> 'dead' and available_at <= now())) * 1000)::float8 as "sinceMs"
      from (select * from (${rows("'pending', 'leased'")}) waiting union all select * from (${rows("'dead'")}) dead) d
      group by agent_id, state`,
  });
}

function fold(rows: readonly Counted[]): Map<string, AgentDepth> {
  const depths = new Map<string, AgentDepth>();
  for (const { agentId, state, deliveries, sinceMs } of rows) {
    const depth = depths.get(agentId) ?? { agentId, pending: 0, leased: 0, dead: 0, waitingSinceMs: null };
    depths.set(agentId, {
      ...depth,
      [state]: depth[state] + deliveries,
      waitingSinceMs: older(depth.waitingSinceMs, sinceMs),
    });
  }
  return depths;
}

/** Combines a partial count with an estimate: the count is a lower bound, and the sample may miss a few rows among many. */
function atLeast(counted: AgentDepth, estimate: AgentDepth): AgentDepth {
  return {
    ...counted,
    pending: Math.max(counted.pending, estimate.pending),
    leased: Math.max(counted.leased, estimate.leased),
    dead: Math.max(counted.dead, estimate.dead),
  };
}

/** Finds the oldest delivery of each agent through the index: a partial count need not include it. */
async function findOldest(query: Query, depths: Map<string, AgentDepth>): Promise<void> {
  for (const { agent_id, waiting_since } of await readAgentActivity({ query }, [...depths.keys()])) {
    const depth = depths.get(agent_id);
    if (depth !== undefined && waiting_since !== null)
      depth.waitingSinceMs = older(depth.waitingSinceMs, Date.parse(waiting_since));
  }
}

function older(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}

function total(rows: readonly Counted[], isMeant: (row: Counted) => boolean): number {
  return rows.filter(isMeant).reduce((sum, { deliveries }) => sum + deliveries, 0);
}
