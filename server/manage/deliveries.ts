/** GET /api/v1/deliveries. */
import { z } from 'zod';
import type { ResolveReader } from '../auth/reader.ts';
import type { Database } from '../db/pool.ts';
import { deliveryStates, listDeliveries } from '../db/queries/read-deliveries.ts';
import type { Exchange } from '../http/exchange.ts';
import { parseQuery } from '../http/query.ts';
import { pageOf, pageQuery } from './paging.ts';

const listQuery = z.strictObject({
  ...pageQuery,
  webhook_id: z.guid().optional(),
  state: z.enum(deliveryStates).optional(),
});

/** An agent sees its own. */
export function createDeliveryList(database: Database, resolve: ResolveReader) {
  return async function list(exchange: Exchange): Promise<void> {
    const reader = await resolve(exchange);
    const query = reader && parseQuery(exchange, listQuery);
    if (!query) return;
    const filter = { agentId: reader.agent.id, webhookId: query.webhook_id ?? null, state: query.state ?? null };
    const rows = await listDeliveries(database, filter, query.cursor ?? null, query.limit + 1);
    exchange.json(
      200,
      pageOf(rows, query.limit, (row) => row),
    );
  };
}
