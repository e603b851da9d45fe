/** /api/v1/deliveries. */
import { z } from 'zod';
import { problem } from '../../../base/http/problem.ts';
import { cellsAway } from '../../../model/cells.ts';
import { inOrder, notInOrder } from '../../../model/event-filter.ts';
import {
  attemptSchema,
  deadGroupsSchema,
  deliveryCountsSchema,
  deliverySchema,
  deliveryStates,
  dismissedSchema,
  reasonText,
  replayedSchema,
  undoInput,
  undoneSchema,
} from '../../../model/events.ts';
import { instant, recordId } from '../../../model/fields.ts';
import { PartialReads } from '../../../store/cells/cells-database.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { countOrEstimateDeliveries } from '../../../store/queries/deliveries/counts.ts';
import { groupDeadLetters } from '../../../store/queries/deliveries/deliveries.ts';
import { readAttempts } from '../../../store/queries/deliveries/history.ts';
import { findDelivery, listDeliveries } from '../../../store/queries/deliveries/lists.ts';
import { agentIdOf } from '../../auth/person.ts';
import { done, found, operation, readerOperation, replyTo } from '../operation.ts';
import { eventId, flag, flagValue, listSchema, pageQuery, searchedPageOf, searchedPageSchema } from '../paging.ts';
import { actOnMany, actOnOne, dismissInput, replayInput, undoMany } from './delivery-changes.ts';

const id = { schema: eventId, problem: 'delivery_unknown' } as const;

const scopeQuery = {
  agent_id: recordId.optional().describe('only deliveries to this agent'),
  webhook_id: recordId.optional().describe('only deliveries of this webhook'),
};
const countQuery = z.strictObject(scopeQuery);
const listQuery = z
  .strictObject({
    ...pageQuery,
    ...scopeQuery,
    event_id: eventId.optional().describe('only deliveries of this event'),
    state: z.enum(deliveryStates).optional().describe('only deliveries in this state'),
    held: flag
      .optional()
      .describe('true: only those that wait for another delivery with their key; false: only others'),
    reason: reasonText.optional().describe('only deliveries with exactly this reason; without a state, dead ones'),
    from: instant.optional().describe('events received at this time or later; UTC if it has no time zone'),
    to: instant.optional().describe('events received before this time'),
  })
  .refine(inOrder, notInOrder);

/** The operations of users on deliveries; agents settle theirs by own-agent-operations.ts. */
export function deliveryOperations(database: Database) {
  return {
    /** An agent sees only its own deliveries. */
    listDeliveries: readerOperation({
      query: listQuery,
      answers: { 200: searchedPageSchema(deliverySchema) },
      handle: async ({ who, query }) => {
        const { agent_id, webhook_id: webhookId = null, event_id: eventId = null, reason = null, from, to } = query;
        // Dead letters have an index. A filter by reason over all deliveries would read every delivery.
        const state = query.state ?? (reason === null ? null : 'dead');
        const agentId = agentIdOf(who) ?? agent_id ?? null;
        const isOthers = agent_id !== undefined && agent_id !== agentId;
        if (isOthers) return done(200, searchedPageOf({ rows: [], stoppedAt: null }, query.limit));
        const filter = { agentId, webhookId, eventId, state, held: flagValue(query.held), reason, from, to };
        const reads = new PartialReads(database);
        const found = await listDeliveries(reads, filter, query.cursor ?? null, query.limit + 1);
        return done(200, { ...searchedPageOf(found, query.limit), cells_away: reads.cellsAway });
      },
    }),

    countDeliveries: operation({
      query: countQuery,
      answers: { 200: deliveryCountsSchema.extend({ cells_away: cellsAway }) },
      handle: async ({ query: { agent_id: agentId = null, webhook_id: webhookId = null } }) => {
        const reads = new PartialReads(database);
        const counts = await countOrEstimateDeliveries(reads, { agentId, webhookId });
        return done(200, { ...counts, cells_away: reads.cellsAway });
      },
    }),

    showDelivery: readerOperation({
      id,
      answers: { 200: deliverySchema },
      handle: async ({ who, id }) => found(await findDelivery(database, agentIdOf(who), id), 'delivery_unknown'),
    }),

    /** An agent sees only its own deliveries. */
    listAttempts: readerOperation({
      id,
      answers: { 200: listSchema(attemptSchema) },
      handle: async ({ who, id }) => {
        if ((await findDelivery(database, agentIdOf(who), id)) === undefined) return problem('delivery_unknown');
        const attempts = await readAttempts(database, { deliveryId: id }, Date.now());
        return done(200, { items: attempts.get(id) ?? [] });
      },
    }),

    groupDeadLetters: operation({
      query: countQuery,
      answers: { 200: deadGroupsSchema.extend({ cells_away: cellsAway }) },
      handle: async ({ query: { agent_id: agentId = null, webhook_id: webhookId = null } }) => {
        const reads = new PartialReads(database);
        const { groups, complete } = await groupDeadLetters(reads, { agentId, webhookId });
        return done(200, { items: groups, complete, cells_away: reads.cellsAway });
      },
    }),

    replayDelivery: operation({
      idempotent: true,
      id,
      answers: { 200: deliverySchema },
      problems: ['delivery_unfinished'],
      handle: async ({ actor, id }) =>
        replyTo(await actOnOne(database, actor, 'replay', id), (delivery) => done(200, delivery)),
    }),

    dismissDelivery: operation({
      idempotent: true,
      id,
      answers: { 200: deliverySchema },
      problems: ['delivery_not_dead'],
      handle: async ({ actor, id }) =>
        replyTo(await actOnOne(database, actor, 'dismissal', id), (delivery) => done(200, delivery)),
    }),

    replayDeliveries: operation({
      idempotent: true,
      input: replayInput,
      answers: { 200: replayedSchema },
      problems: ['agent_unknown'],
      handle: async ({ actor, input }) => {
        const order = { kind: 'replay', ...scopeOf(input), state: input.state ?? null } as const;
        const acted = await actOnMany(database, actor, order);
        return replyTo(acted, ({ count, ...rest }) => done(200, { replayed: count, ...rest }));
      },
    }),

    dismissDeliveries: operation({
      idempotent: true,
      input: dismissInput,
      answers: { 200: dismissedSchema },
      problems: ['agent_unknown'],
      handle: async ({ actor, input }) => {
        const acted = await actOnMany(database, actor, { kind: 'dismissal', ...scopeOf(input), state: 'dead' });
        return replyTo(acted, ({ count, ...rest }) => done(200, { dismissed: count, ...rest }));
      },
    }),

    /** Restores the deliveries that have not changed since the action. */
    undoDeliveries: operation({
      input: undoInput,
      answers: { 200: undoneSchema },
      problems: ['action_unknown'],
      handle: async ({ actor, input }) => {
        const undone = await undoMany(database, actor, input.action_id);
        return undone === null ? problem('action_unknown') : done(200, undone);
      },
    }),
  };
}

function scopeOf(input: z.output<typeof dismissInput>) {
  const {
    agent_id: agentId,
    webhook_id: webhookId,
    delivery_ids: ids,
    reason,
    finished_before: finishedBefore,
  } = input;
  return { agentId, webhookId, ids, reason, finishedBefore };
}
