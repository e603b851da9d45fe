/** Replays a stored event as new deliveries, with an audit entry. */

import type { Actor } from '../../audit/actor.ts';
import { record } from '../../audit/record.ts';
import type { Database, Query } from '../../db/pool.ts';
import { missingAgents } from '../../db/queries/agents.ts';
import { findEvent } from '../../db/queries/events.ts';
import { deliverAgain } from '../../db/queries/replay.ts';
import { type Problem, problem, type Result } from '../../http/problem.ts';

/** Delivers to the given agents or, with null, to all agents subscribed to the webhook. All or nothing. Resolves with the ids of the new deliveries. */
export function replayEvent(
  database: Database,
  actor: Actor,
  eventId: string,
  agentIds: readonly string[] | null,
): Promise<Result<string[]>> {
  return database.transaction<Result<string[]>>(async (query) => {
    const unknown = await unknownAgents(query, agentIds);
    if (unknown !== null) return unknown;
    const deliveryIds = await deliverAgain({ query }, [eventId], agentIds);
    if (deliveryIds.length === 0)
      return problem((await findEvent({ query }, null, eventId)) === undefined ? 'event_unknown' : 'no_subscribers');
    const target = { kind: 'event', id: eventId, name: eventId };
    await record(query, actor, {
      action: 'event.replay',
      target,
      after: { agent_ids: agentIds, delivery_ids: deliveryIds },
    });
    return { kind: 'done', value: deliveryIds };
  });
}

/** The problem of ids that no active agent has; null: all have one, or none is given. */
export async function unknownAgents(query: Query, given: readonly string[] | null): Promise<Problem | null> {
  const unknown = given === null ? [] : await missingAgents({ query }, given);
  if (unknown.length === 0) return null;
  const errors = unknown.map((id) => ({
    pointer: `/agent_ids/${given!.indexOf(id)}`,
    detail: `No active agent has the id ${id}.`,
  }));
  return problem('invalid_request', undefined, { errors });
}
