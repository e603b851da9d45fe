/** Number and size of the stored events of a webhook. */
import { z } from 'zod';
import { idOf, timeOrNull } from './fields.ts';

export const webhookUsageSchema = z
  .object({
    webhook_id: idOf('webhook'),
    name: z.string().describe('its display name'),
    events: z
      .number()
      .describe(
        'stored events, approximately: counted by hour, and undelivered ones that are kept longer are left out',
      ),
    bytes: z.number().describe('bytes of their bodies, as approximate; the disk holds headers and indexes too'),
    oldest_at: timeOrNull('hour of the oldest stored event; null: none is stored'),
  })
  .meta({ id: 'WebhookUsage' });

export const usageSchema = z.object({
  items: z.array(webhookUsageSchema).describe('most bytes first'),
  tables: z
    .object({
      events: z.number().describe('bytes on disk of all events, with indexes'),
      deliveries: z.number().describe('bytes on disk of all deliveries, with indexes'),
    })
    .describe('the two large tables, of all webhooks together'),
});
