/** /api/v1/events, /events/{id} and /events/{id}/body. */
import { z } from 'zod';
import { done, problem, readerOperation } from '../api/operation.ts';
import { agentIdOf } from '../auth/reader.ts';
import { readStoredHeaders } from '../core/stored-headers.ts';
import type { Database } from '../db/pool.ts';
import { type EventRecord, findEvent, listEvents } from '../db/queries/read-events.ts';
import { eventId, pageOf, pageQuery, pageSchema } from './paging.ts';

const listQuery = z.strictObject({ ...pageQuery, webhook_id: z.guid().optional() });
const id = { schema: eventId, problem: 'event_unknown' } as const;

export const eventSchema = z.object({
  id: z.guid(),
  webhook_id: z.guid(),
  received_at: z.iso.datetime(),
  source_ip: z.string(),
  content_type: z.string().nullable(),
  bytes: z.number(),
  headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
});

/** An agent sees the events that were on their way to it. */
export function eventOperations(database: Database) {
  return {
    listEvents: readerOperation({
      query: listQuery,
      answers: { 200: pageSchema(eventSchema) },
      handle: async ({ who, query }) => {
        const scope = { agentId: agentIdOf(who), webhookId: query.webhook_id ?? null };
        const rows = await listEvents(database, scope, query.cursor ?? null, query.limit + 1);
        return done(200, pageOf(rows, query.limit, describeEvent));
      },
    }),

    showEvent: readerOperation({
      id,
      answers: { 200: eventSchema },
      handle: async (request) => {
        const event = await findEvent(database, agentIdOf(request.who), request.id);
        return event === undefined ? problem('event_unknown') : done(200, describeEvent(event));
      },
    }),

    /** The stored bytes, unchanged; as an attachment, so that no browser shows what a stranger sent. */
    showEventBody: readerOperation({
      id,
      answers: { 200: null },
      handle: async ({ who, id, exchange }) => {
        const event = await findEvent(database, agentIdOf(who), id);
        if (event === undefined) return problem('event_unknown');
        exchange.setHeader('content-disposition', `attachment; filename="${event.id}"`);
        exchange.setHeader('content-security-policy', "default-src 'none'; sandbox");
        exchange.answer(200, event.content_type ?? 'application/octet-stream', event.body);
        return done(200);
      },
    }),
  };
}

/** An event as people and agents see it, without its body. */
export function describeEvent(event: EventRecord): z.input<typeof eventSchema> {
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
