/** /api/v1/deliveries. */
import { z } from 'zod';
import { done, readerOperation } from '../api/operation.ts';
import { agentIdOf } from '../auth/reader.ts';
import type { Database } from '../db/pool.ts';
import { deliveryStates, listDeliveries } from '../db/queries/read-deliveries.ts';
import { pageOf, pageQuery, pageSchema } from './paging.ts';

const listQuery = z.strictObject({
  ...pageQuery,
  webhook_id: z.guid().optional(),
  state: z.enum(deliveryStates).optional(),
});

export const deliverySchema = z
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

export function deliveryOperations(database: Database) {
  return {
    /** An agent sees its own. */
    listDeliveries: readerOperation({
      query: listQuery,
      answers: { 200: pageSchema(deliverySchema) },
      handle: async ({ who, query }) => {
        const filter = {
          agentId: agentIdOf(who),
          webhookId: query.webhook_id ?? null,
          state: query.state ?? null,
        };
        const rows = await listDeliveries(database, filter, query.cursor ?? null, query.limit + 1);
        return done(
          200,
          pageOf(rows, query.limit, (row) => row),
        );
      },
    }),
  };
}
