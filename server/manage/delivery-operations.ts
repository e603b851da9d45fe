/** /api/v1/deliveries. */
import { z } from 'zod';
import { done, operation, problem, readerOperation } from '../api/operation.ts';
import { agentIdOf } from '../auth/reader.ts';
import type { Database } from '../db/pool.ts';
import { COUNTED_MAX, countOrEstimateDeliveries } from '../db/queries/count-deliveries.ts';
import { deliveryStates, findDelivery, listDeliveries } from '../db/queries/read-deliveries.ts';
import { replayMany, replayOne } from './delivery-replay.ts';
import { recordId } from './input.ts';
import { eventId, pageOf, pageQuery, pageSchema } from './paging.ts';

const id = { schema: eventId, problem: 'delivery_unknown' } as const;

const scopeQuery = { agent_id: recordId.optional(), webhook_id: recordId.optional() };
const countQuery = z.strictObject(scopeQuery);
const listQuery = z.strictObject({
  ...pageQuery,
  ...scopeQuery,
  event_id: eventId.optional(),
  state: z.enum(deliveryStates).optional(),
});

const manyInput = z.strictObject({
  agent_id: recordId,
  state: z.enum(['dead', 'done']),
  webhook_id: recordId.nullable().default(null).describe('of this webhook alone'),
});

const deliverySchema = z
  .object({
    id: z.guid(),
    event_id: z.guid(),
    webhook_id: z.guid(),
    agent_id: z.guid(),
    state: z.enum(deliveryStates),
    attempts: z.number(),
    received_at: z.iso.datetime(),
    available_at: z.iso.datetime().describe('pending: claimable from then on; leased: the lease ends then'),
    finished_at: z.iso.datetime().nullable(),
    reason: z.string().nullable().describe('what the agent said with its last nack'),
  })
  .meta({ id: 'Delivery' });

const countsSchema = z.object({
  pending: z.int(),
  leased: z.int(),
  dead: z.int(),
  exact: z
    .boolean()
    .describe(
      `false: more than ${COUNTED_MAX} wait or are dead, and the numbers are estimated from a sample of the table`,
    ),
});

export function deliveryOperations(database: Database) {
  return {
    /** An agent sees its own. */
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
      answers: { 200: countsSchema },
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
      answers: { 200: z.object({ replayed: z.int(), more: z.boolean().describe('true: repeat it for the rest') }) },
      problems: ['agent_unknown'],
      handle: async ({ actor, input: { agent_id: agentId, state, webhook_id: webhookId } }) => {
        const replayed = await replayMany(database, actor, { agentId, state, webhookId });
        return replayed === null ? problem('agent_unknown', 'No agent has this id.') : done(200, replayed);
      },
    }),
  };
}
