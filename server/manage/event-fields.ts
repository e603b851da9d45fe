/** What people and agents see of an event. */
import { z } from 'zod';
import { readStoredHeaders } from '../core/stored-headers.ts';
import type { EventRecord } from '../db/queries/read-events.ts';
import { pageSchema } from './paging.ts';

export const eventSchema = z
  .object({
    id: z.guid(),
    webhook_id: z.guid(),
    received_at: z.iso.datetime(),
    source_ip: z.string(),
    content_type: z.string().nullable(),
    bytes: z.number(),
    headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
  })
  .meta({ id: 'Event' });

export const eventPageSchema = pageSchema(eventSchema).extend({
  complete: z
    .boolean()
    .describe('false: the search took too long and ended before the page was full; next_cursor goes on from there'),
  searched_to: z.iso.datetime().nullable().describe('how far back an incomplete search looked'),
});

/** Without its body. */
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
