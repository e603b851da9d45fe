/** Replays and dismisses deliveries, and undoes such an action, with audit entries. */
import { randomUUID } from 'node:crypto';
import { z } from 'zod';
import { problem, type Result } from '../../../base/http/problem.ts';
import { needsOneAgent, reasonText, type replayedSchema } from '../../../model/events.ts';
import { instant, recordId } from '../../../model/fields.ts';
import { counted } from '../../../model/words.ts';
import { type Actor, record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findAgent } from '../../../store/queries/agents/agents.ts';
import {
  ACTED_MAX,
  type ActionKind,
  type ActionOrder,
  actOnDeliveries,
  dismissDelivery,
  replayDelivery,
  type Undone,
  undoAction,
} from '../../../store/queries/deliveries/actions.ts';
import { type DeliveryRecord, findDelivery } from '../../../store/queries/deliveries/lists.ts';
import { eventId } from '../paging.ts';

const verbs = { replay: 'replay', dismissal: 'dismiss' } as const;
/** `change`: the statement for one delivery. `refused`: the problem if the state of the delivery does not allow it. */
const onOne = {
  replay: { change: replayDelivery, refused: 'delivery_unfinished' },
  dismissal: { change: dismissDelivery, refused: 'delivery_not_dead' },
} as const;

/**
 * Makes one finished delivery pending again, with its attempts reset to 0, or dismisses a dead one.
 * @param id a valid delivery id, which contains its time
 */
export function actOnOne(
  database: Database,
  actor: Actor,
  kind: ActionKind,
  id: string,
): Promise<Result<DeliveryRecord>> {
  return database.transaction(async (query): Promise<Result<DeliveryRecord>> => {
    const before = await findDelivery({ query }, null, id);
    if (before === undefined) return problem('delivery_unknown');
    const { change, refused } = onOne[kind];
    if (!(await change({ query }, id))) return problem(refused);
    const after = (await findDelivery({ query }, null, id))!;
    const target = { kind: 'delivery', id, name: id };
    await record(query, actor, { action: `delivery.${verbs[kind]}`, target, before, after });
    return { kind: 'done', value: after };
  });
}

type ActedOnMany = Omit<z.input<typeof replayedSchema>, 'replayed'> & { count: number };

/** Replays or dismisses matching deliveries, oldest first, at most ACTED_MAX per call. */
export function actOnMany(database: Database, actor: Actor, order: ActionOrder): Promise<Result<ActedOnMany>> {
  return database.transaction(async (query): Promise<Result<ActedOnMany>> => {
    const agent = order.agentId === null ? null : await findAgent(query, order.agentId);
    if (agent === undefined) return problem('agent_unknown', 'No agent has this id.');
    const actionId = randomUUID();
    const { count, finishedBefore: finished_before } = await actOnDeliveries({ query }, actionId, order);
    if (count === 0) return { kind: 'done', value: { count, more: false, finished_before, action_id: null } };
    const target = agent === null ? manyOf(actionId, count) : { kind: 'agent', id: agent.id, name: agent.name };
    const { kind, state, webhookId: webhook_id, reason, ids: delivery_ids } = order;
    const done = kind === 'replay' ? { replayed: count } : { dismissed: count };
    const chosen = { ...(reason === undefined ? {} : { reason }), ...(delivery_ids ? { delivery_ids } : {}) };
    const after = { state, webhook_id, ...chosen, ...done, action_id: actionId };
    await record(query, actor, { action: `delivery.${verbs[kind]}`, target, after });
    return { kind: 'done', value: { count, more: count >= ACTED_MAX, finished_before, action_id: actionId } };
  });
}

/** Undoes an action of `actOnMany`. Null: the action does not exist, is older than a day, or was undone already. */
export function undoMany(database: Database, actor: Actor, actionId: string): Promise<Undone | null> {
  return database.transaction(async (query) => {
    const undone = await undoAction({ query }, actionId);
    if (undone === null) return null;
    const target = manyOf(actionId, undone.restored);
    await record(query, actor, { action: 'delivery.undo', target, after: undone });
    return undone;
  });
}

function manyOf(id: string, count: number) {
  return { kind: 'deliveries', id, name: counted(count, 'delivery', 'deliveries') };
}

/** Deliveries that one request may name. */
const NAMED_MAX = 100;

const scope = {
  delivery_ids: z
    .array(eventId)
    .min(1, 'Name a delivery, or leave delivery_ids out.')
    .max(NAMED_MAX, `Name at most ${NAMED_MAX} deliveries.`)
    .optional()
    .describe('only these deliveries; absent: all that match'),
  webhook_id: recordId.nullable().default(null).describe('only deliveries of this webhook; null: of all'),
  reason: reasonText
    .nullable()
    .optional()
    .describe('only deliveries with exactly this reason; null: those without a reason'),
  finished_before: instant
    .optional()
    .describe('only deliveries that were finished before this time; absent: before the request'),
};
export const replayInput = z
  .strictObject({
    agent_id: recordId
      .nullable()
      .default(null)
      .describe('id of the agent; null: of all agents that are not revoked, only for the states dead and dismissed'),
    state: z
      .enum(['dead', 'done', 'dismissed', 'filtered'])
      .optional()
      .describe('state of the deliveries to replay; absent, only with delivery_ids: any of these states'),
    ...scope,
  })
  .refine(({ state, delivery_ids }) => state !== undefined || delivery_ids !== undefined, {
    path: ['state'],
    message: 'Give the state, or delivery_ids.',
  })
  .refine(({ agent_id, state, delivery_ids }) => agent_id !== null || delivery_ids || !state || !needsOneAgent(state), {
    path: ['agent_id'],
    message: 'Give the id of the agent: acknowledged and filtered deliveries are replayed for one agent at a time.',
  });

export const dismissInput = z.strictObject({
  agent_id: recordId.nullable().default(null).describe('id of the agent; null: of all agents'),
  ...scope,
});
