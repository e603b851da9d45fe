/** Replays finished deliveries, with an audit entry. */

import type { Actor } from '../../audit/actor.ts';
import { record } from '../../audit/record.ts';
import type { Database } from '../../db/pool.ts';
import { findAgent } from '../../db/queries/agents.ts';
import { type DeliveryRecord, findDelivery } from '../../db/queries/deliveries.ts';
import { REPLAYED_MAX, replayDeliveries, replayDelivery } from '../../db/queries/replay.ts';

/** `unfinished`: the delivery is pending or leased. */
export type Replayed = { kind: 'done'; delivery: DeliveryRecord } | { kind: 'unknown' } | { kind: 'unfinished' };

/**
 * Makes one dead or done delivery pending again, with its attempts reset to 0.
 * @param id a valid delivery id, which contains its time
 */
export function replayOne(database: Database, actor: Actor, id: string): Promise<Replayed> {
  return database.transaction<Replayed>(async (query) => {
    const before = await findDelivery({ query }, null, id);
    if (before === undefined) return { kind: 'unknown' };
    if (!(await replayDelivery({ query }, id))) return { kind: 'unfinished' };
    const after = (await findDelivery({ query }, null, id))!;
    const target = { kind: 'delivery', id, name: id };
    await record(query, actor, { action: 'delivery.replay', target, before, after });
    return { kind: 'done', delivery: after };
  });
}

export interface ManyOrder {
  agentId: string;
  state: 'dead' | 'done';
  /** Null: every webhook. */
  webhookId: string | null;
}

/**
 * Replays an agent's deliveries in this state, oldest first, at most REPLAYED_MAX per call. `more`: there may be others. Null:
 * the agent does not exist.
 */
export function replayMany(
  database: Database,
  actor: Actor,
  order: ManyOrder,
): Promise<{ replayed: number; more: boolean } | null> {
  return database.transaction(async (query) => {
    const agent = await findAgent(query, order.agentId);
    if (agent === undefined) return null;
    const replayed = await replayDeliveries({ query }, order);
    const { id, name } = agent;
    const after = { state: order.state, webhook_id: order.webhookId, replayed };
    if (replayed > 0)
      await record(query, actor, { action: 'delivery.replay', target: { kind: 'agent', id, name }, after });
    return { replayed, more: replayed === REPLAYED_MAX };
  });
}
