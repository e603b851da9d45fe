/** Waiting and dead deliveries of each agent, and since when the oldest waits. */

import { COUNTED_MAX } from '../../../model/events.ts';
import { concatenated } from '../../connect/place.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { readWaiting } from '../agents/activity.ts';
import { unjudged } from '../claims/filter.ts';
import { type Limits, sampleDeliveries, total, withinTimeout } from './counts.ts';

/** To count 500,000 costs less than to look for the oldest delivery of thousands of agents. */
const depthLimits: Limits = { waiting: 500_000, dead: COUNTED_MAX };

interface AgentDepth {
  agentId: string;
  pending: number;
  leased: number;
  dead: number;
  /** When its oldest claimable delivery that a filter cannot drop became claimable, Unix milliseconds; null: none waits. */
  waitingSinceMs: number | null;
}

export interface DeliveryDepths {
  /** Only agents that have waiting or dead deliveries. */
  agents: AgentDepth[];
  /** False: more than the limits wait or are dead, and the numbers are estimates. */
  exact: boolean;
}

interface Counted {
  agentId: string;
  state: 'pending' | 'leased' | 'dead';
  deliveries: number;
  sinceMs: number | null;
}

/** Reads deliveries up to the limits, and a sample when there are more. Each statement has a timeout. */
export function readDeliveryDepths(database: Database, max = depthLimits): Promise<DeliveryDepths> {
  return withinTimeout(database, async (query) => {
    const counted = await countByAgent(query, max);
    const waiting = total(counted, ({ state }) => state !== 'dead');
    const dead = total(counted, ({ state }) => state === 'dead');
    const depths = fold(counted);
    if (waiting <= max.waiting && dead <= max.dead) return { agents: [...depths.values()], exact: true };
    const beyond = { waiting: waiting > max.waiting, dead: dead > max.dead };
    const sampled = await sampleDeliveries(query, beyond, { byAgent: true });
    for (const [agentId, estimate] of fold(sampled.map((row) => ({ ...row, agentId: row.agentId!, sinceMs: null })))) {
      const known = depths.get(agentId);
      depths.set(agentId, known === undefined ? estimate : atLeast(known, estimate));
    }
    if (waiting > max.waiting) await findOldest(query, depths);
    return { agents: [...depths.values()], exact: false };
  });
}

function countByAgent(query: Query, max: Limits): Promise<Counted[]> {
  const rows = (states: string, most: number) =>
    `select agent_id, webhook_id, state, leases, history, available_at from deliveries where state in (${states}) limit ${most + 1}`;
  return query<Counted>({
    text: `
      select d.agent_id as "agentId", d.state, count(*)::int as deliveries,
        (extract(epoch from min(d.available_at) filter (
          where d.state <> 'dead' and d.available_at <= now() and (s.filter is null or not (${unjudged('d')})))) * 1000)::float8 as "sinceMs"
      from (select * from (${rows("'pending', 'leased'", max.waiting)}) waiting union all select * from (${rows("'dead'", max.dead)}) dead) d
      left join subscriptions s on s.agent_id = d.agent_id and s.webhook_id = d.webhook_id
      group by d.agent_id, d.state`,
    place: { each: concatenated, lenient: true },
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
  for (const { agent_id, since } of await readWaiting({ query }, [...depths.keys()])) {
    const depth = depths.get(agent_id)!;
    depth.waitingSinceMs = older(depth.waitingSinceMs, Date.parse(since));
  }
}

function older(one: number | null, other: number | null): number | null {
  return one === null || other === null ? (one ?? other) : Math.min(one, other);
}
