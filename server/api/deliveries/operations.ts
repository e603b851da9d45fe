/** /api/v1/deliveries. */
import { z } from 'zod';
import { agentIdOf } from '../../auth/reader.ts';
import type { Database } from '../../db/pool.ts';
import { deliveryStates, findDelivery, listDeliveries } from '../../db/queries/deliveries.ts';
import { COUNTED_MAX, countOrEstimateDeliveries } from '../../db/queries/delivery-counts.ts';
import { example, idOf, timeOf } from '../../http/members.ts';
import { recordId } from '../input.ts';
import { done, operation, problem, readerOperation } from '../operation.ts';
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

const deliverySchema = z
  .object({
    id: idOf('delivery'),
    event_id: idOf('event'),
    webhook_id: idOf('webhook'),
    agent_id: idOf('agent'),
    state: z.enum(deliveryStates).describe('dead: all attempts have failed'),
    attempts: z.number().describe('claims so far'),
    received_at: timeOf('when the event was received'),
    available_at: z.iso.datetime().describe('pending: time from which it can be claimed; leased: end of the lease'),
    finished_at: z.iso.datetime().nullable().describe('when it became done or dead; null: it is pending or leased'),
    reason: z.string().nullable().describe('reason that the agent gave with its last nack'),
  })
  .meta({
    id: 'Delivery',
    examples: [
      {
        id: example.delivery_id,
        event_id: example.event_id,
        webhook_id: example.webhook_id,
        agent_id: example.agent_id,
        state: 'leased',
        attempts: 1,
        received_at: example.received_at,
        available_at: example.leased_until,
        finished_at: null,
        reason: null,
      },
    ],
  });

const countsSchema = z.object({
  pending: z.int().describe('deliveries that wait for their agent'),
  leased: z.int().describe('deliveries under lease'),
  dead: z.int().describe('dead letters'),
  exact: z
    .boolean()
    .describe(
      `false: more than ${COUNTED_MAX} are waiting or dead, and the numbers are estimated from a sample of the table`,
    ),
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
