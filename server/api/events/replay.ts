/** Replays a stored event as new deliveries, with an audit entry. */

import type { Actor } from '../../audit/actor.ts';
import { record } from '../../audit/record.ts';
import type { Database } from '../../db/pool.ts';
import { missingAgents } from '../../db/queries/agents.ts';
import { findEvent } from '../../db/queries/events.ts';
import { deliverAgain } from '../../db/queries/replay.ts';

/** `no_agent`: no agent is subscribed to the event's webhook. */
export type EventReplayed =
  | { kind: 'done'; deliveryIds: string[] }
  | { kind: 'unknown' }
  | { kind: 'no_agent' }
  | { kind: 'agents_unknown'; agentIds: string[] };

/** Delivers to the given agents or, with null, to all agents subscribed to the webhook. All or nothing. */
export function replayEvent(
  database: Database,
  actor: Actor,
  eventId: string,
  agentIds: readonly string[] | null,
): Promise<EventReplayed> {
  return database.transaction<EventReplayed>(async (query) => {
    const missing = agentIds === null ? [] : await missingAgents({ query }, agentIds);
    if (missing.length > 0) return { kind: 'agents_unknown', agentIds: missing };
    const deliveryIds = await deliverAgain({ query }, [eventId], agentIds);
    if (deliveryIds.length === 0)
      return { kind: (await findEvent({ query }, null, eventId)) === undefined ? 'unknown' : 'no_agent' };
    const target = { kind: 'event', id: eventId, name: eventId };
    await record(query, actor, {
      action: 'event.replay',
      target,
      after: { agent_ids: agentIds, delivery_ids: deliveryIds },
    });
    return { kind: 'done', deliveryIds };
  });
}
