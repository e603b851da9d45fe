/** Output schemas of events. */
import { z } from 'zod';
import type { EventRecord } from '../../db/queries/events.ts';
import { bodyBytes, contentType, example, idOf, receivedAt, sourceIp } from '../../http/members.ts';
import { readStoredHeaders } from '../../signatures/stored-headers.ts';
import { pageSchema } from '../paging.ts';

export const eventSchema = z
  .object({
    id: idOf('event'),
    webhook_id: idOf('webhook'),
    received_at: receivedAt,
    source_ip: sourceIp,
    content_type: contentType,
    bytes: bodyBytes,
    headers: z.record(z.string(), z.string()).describe('without credentials, cookies and signatures'),
  })
  .meta({
    id: 'Event',
    examples: [
      {
        id: example.event_id,
        webhook_id: example.webhook_id,
        received_at: example.received_at,
        source_ip: '192.0.2.10',
        content_type: 'application/json',
        bytes: 44,
        headers: { 'content-type': 'application/json' },
      },
    ],
  });

export const eventPageSchema = pageSchema(eventSchema).extend({
  complete: z
    .boolean()
    .describe('false: the search reached its time limit before the page was full; next_cursor continues from there'),
  searched_to: z.iso.datetime().nullable().describe('time down to which an incomplete search looked'),
});

/** The event without its body. */
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
