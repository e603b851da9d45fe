/** Waiting and dead deliveries of each agent, and since when the oldest waits. */

import { concatenated } from '../../connect/place.ts';
import type { Database, Query } from '../../connect/pool.ts';
import { readWaiting } from '../agents/activity.ts';
import { countHeld } from '../claims/held.ts';
import { limits, sampleDeliveries, total, withinTimeout } from './counts.ts';

interface AgentDepth {
  agentId: string;
  pending: number;
  /** See isHeld. */
  held: number;
  leased: number;
  dead: number;
  /** When its oldest claimable delivery that a filter cannot drop became claimable, Unix milliseconds; null: none waits, or the agent is paused. */
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
    for (const [agentId, estimate] of fold(sampled.map((row) => ({ ...row, agentId: row.agentId! }))))
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

function countByAgent(query: Query, max: typeof limits): Promise<Counted[]> {
  const rows = (states: string, most: number) =>
    `(select agent_id, state from deliveries where state in (${states}) limit ${most + 1})`;
  return query<Counted>({
    text: `
      select agent_id as "agentId", state, count(*)::int as deliveries
      from (${rows("'pending', 'leased'", max.waiting)} union all ${rows("'dead'", max.dead)}) d
      group by agent_id, state`,
    place: { each: concatenated, lenient: true },
  });
}

function none(agentId: string): AgentDepth {
  return { agentId, pending: 0, held: 0, leased: 0, dead: 0, waitingSinceMs: null };
}

function fold(rows: readonly Counted[]): Map<string, AgentDepth> {
  const depths = new Map<string, AgentDepth>();
  for (const { agentId, state, deliveries } of rows) {
    const depth = depths.get(agentId) ?? none(agentId);
    depths.set(agentId, { ...depth, [state]: depth[state] + deliveries });
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
