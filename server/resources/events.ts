/** Events. */
import { z } from 'zod';
import { bodyBytes, contentType, example, idOf, receivedAt, sourceIp } from './fields.ts';

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
