/** Decides about the unfinished deliveries of a revoked agent. */
import { randomUUID } from 'node:crypto';
import { invalid, problem, type Result } from '../../../base/http/problem.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findAgent } from '../../../store/queries/agents/agents.ts';
import { dismissUndelivered, moveUndelivered } from '../../../store/queries/alerts/undelivered.ts';
import { ACTED_MAX } from '../../../store/queries/deliveries/actions.ts';

interface Settled {
  settled: number;
  more: boolean;
  action_id: string | null;
}

/**
 * Dismisses the unfinished deliveries of a revoked agent, or moves them to an active one, at most ACTED_MAX. Those that the other agent
 * has already are dismissed in the last step.
 * @param toAgentId null: dismiss them
 */
export function settleUndelivered(
  database: Database,
  actor: Actor,
  id: string,
  toAgentId: string | null,
): Promise<Result<Settled>> {
  return database.transaction(async (query): Promise<Result<Settled>> => {
    const agent = await findAgent(query, id);
    if (agent === undefined) return problem('agent_unknown', 'No agent has this id.');
    if (!agent.revoked) return problem('agent_active');
    const to = toAgentId === null ? null : await findAgent(query, toAgentId);
    if (to === undefined || to?.revoked) return invalid('/to_agent_id', 'No active agent has this id.');
    const moved = to === null ? 0 : await moveUndelivered({ query }, id, to.id);
    const actionId = randomUUID();
    // Deliveries of events that the other agent has a delivery of remain when there is nothing to move.
    const dismissed = to !== null && moved >= ACTED_MAX ? 0 : await dismissUndelivered({ query }, id, actionId);
    const settled = moved + dismissed;
    const undone = dismissed > 0 ? actionId : null;
    if (settled > 0)
      await record(query, actor, {
        action: to === null ? 'delivery.dismiss' : 'delivery.move',
        target: { kind: 'agent', id, name: agent.name },
        after: {
          state: 'undelivered',
          ...(to === null ? {} : { to_agent_id: to.id, moved }),
          dismissed,
          action_id: undone,
        },
      });
    return {
      kind: 'done',
      value: { settled, more: moved >= ACTED_MAX || dismissed >= ACTED_MAX, action_id: undone },
    };
  });
}
