/** /api/v1/deliveries. */
import { z } from 'zod';
import { agentIdOf } from '../../auth/person.ts';
import type { Database } from '../../db/pool.ts';
import { findDelivery, listDeliveries } from '../../db/queries/deliveries.ts';
import { countOrEstimateDeliveries } from '../../db/queries/delivery-counts.ts';
import { problem } from '../../http/problem.ts';
import { deliveryCountsSchema, deliverySchema, deliveryStates } from '../../resources/events.ts';
import { recordId } from '../../resources/fields.ts';
import { done, operation, readerOperation } from '../operation.ts';
import { eventId, pageOf, pageQuery, pageSchema } from '../paging.ts';
import { replayMany, replayOne } from './replay.ts';

const id = { schema: eventId, problem: 'delivery_unknown' } as const;

const scopeQuery = {
  agent_id: recordId.optional().describe('only deliveries to this agent'),
  webhook_id: recordId.optional().describe('only deliveries of this webhook'),
};
const countQuery = z.strictObject(scopeQuery);
const listQuery = z.strictObject({
  ...pageQuery,
  ...scopeQuery,
  event_id: eventId.optional().describe('only deliveries of this event'),
  state: z.enum(deliveryStates).optional().describe('only deliveries in this state'),
});

const manyInput = z.strictObject({
  agent_id: recordId.describe('id of the agent'),
  state: z.enum(['dead', 'done']).describe('state of the deliveries to replay'),
  webhook_id: recordId.nullable().default(null).describe('only deliveries of this webhook; null: of all'),
});

export function deliveryOperations(database: Database) {
  return {
    /** An agent sees only its own deliveries. */
    listDeliveries: readerOperation({
      query: listQuery,
      answers: { 200: pageSchema(deliverySchema) },
      handle: async ({ who, query }) => {
        const { agent_id, webhook_id: webhookId = null, event_id: eventId = null, state = null } = query;
        const agentId = agentIdOf(who) ?? agent_id ?? null;
        if (agent_id !== undefined && agent_id !== agentId) return done(200, { items: [], next_cursor: null });
        const filter = { agentId, webhookId, eventId, state };
        const rows = await listDeliveries(database, filter, query.cursor ?? null, query.limit + 1);
        return done(
          200,
          pageOf(rows, query.limit, (row) => row),
        );
      },
    }),

    countDeliveries: operation({
      query: countQuery,
      answers: { 200: deliveryCountsSchema },
      handle: async ({ query: { agent_id: agentId = null, webhook_id: webhookId = null } }) =>
        done(200, await countOrEstimateDeliveries(database, { agentId, webhookId })),
    }),

    showDelivery: readerOperation({
      id,
      answers: { 200: deliverySchema },
      handle: async ({ who, id }) => {
        const delivery = await findDelivery(database, agentIdOf(who), id);
        return delivery === undefined ? problem('delivery_unknown') : done(200, delivery);
      },
    }),

    replayDelivery: operation({
      idempotent: true,
      id,
      answers: { 200: deliverySchema },
      problems: ['delivery_unfinished'],
      handle: async ({ actor, id }) => {
        const replayed = await replayOne(database, actor, id);
        return replayed.kind === 'done' ? done(200, replayed.delivery) : problem(`delivery_${replayed.kind}`);
      },
    }),

    replayDeliveries: operation({
      idempotent: true,
      input: manyInput,
      answers: {
        200: z.object({
          replayed: z.int().describe('number of deliveries that are pending again'),
          more: z.boolean().describe('true: more deliveries match; repeat the request'),
        }),
      },
      problems: ['agent_unknown'],
      handle: async ({ actor, input: { agent_id: agentId, state, webhook_id: webhookId } }) => {
        const replayed = await replayMany(database, actor, { agentId, state, webhookId });
        return replayed === null ? problem('agent_unknown', 'No agent has this id.') : done(200, replayed);
      },
    }),
  };
}
