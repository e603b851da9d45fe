/** GET /api/v1/events, /events/{id} and /events/{id}/body. */
import { z } from 'zod';
import type { Reader, ResolveReader } from '../auth/reader.ts';
import { isTimedId } from '../core/ids.ts';
import { readStoredHeaders } from '../core/stored-headers.ts';
import type { Database } from '../db/pool.ts';
import { type EventRecord, findEvent, listEvents } from '../db/queries/read-events.ts';
import type { Exchange } from '../http/exchange.ts';
import { parseQuery } from '../http/query.ts';
import { pageOf, pageQuery } from './paging.ts';

const listQuery = z.strictObject({ ...pageQuery, webhook_id: z.guid().optional() });

export interface EventParts {
  database: Database;
  resolve: ResolveReader;
}

/** Handlers of the three; an agent sees the events that were on their way to it. */
export function createEvents({ database, resolve }: EventParts) {
  async function found(exchange: Exchange) {
    const reader = await resolve(exchange);
    if (reader === null) return undefined;
    const id = exchange.parameters[0]!;
    const event = isTimedId(id) ? await findEvent(database, agentOf(reader), id) : undefined;
    if (event === undefined) exchange.problem('event_unknown');
    return event;
  }

  return {
    async list(exchange: Exchange): Promise<void> {
      const reader = await resolve(exchange);
      const query = reader && parseQuery(exchange, listQuery);
      if (!query) return;
      const scope = { agentId: agentOf(reader), webhookId: query.webhook_id ?? null };
      const rows = await listEvents(database, scope, query.cursor ?? null, query.limit + 1);
      exchange.json(200, pageOf(rows, query.limit, describeEvent));
    },

    async one(exchange: Exchange): Promise<void> {
      const event = await found(exchange);
      if (event !== undefined) exchange.json(200, describeEvent(event));
    },

    /** The stored bytes, unchanged; as an attachment, so that no browser shows what a stranger sent. */
    async body(exchange: Exchange): Promise<void> {
      const event = await found(exchange);
      if (event === undefined) return;
      exchange.setHeader('content-disposition', `attachment; filename="${event.id}"`);
      exchange.setHeader('content-security-policy', "default-src 'none'; sandbox");
      exchange.answer(200, event.content_type ?? 'application/octet-stream', event.body);
    },
  };
}

function agentOf(reader: Reader): string | null {
  return reader.agent.id;
}

/** An event as people and agents see it, without its body. */
export function describeEvent(event: EventRecord): object {
  const { id, webhook_id, received_at, source_ip, content_type, bytes, headers } = event;
  return {
    id,
    webhook_id,
    received_at,
    source_ip,
    content_type,
    bytes,
    headers: readStoredHeaders(headers.toString('utf8')),
  };
}
