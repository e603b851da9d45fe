/** When a webhook last received something. */
import { z } from 'zod';
import { idOf, timeOrNull } from './fields.ts';

export const webhookActivitySchema = z
  .object({
    webhook_id: idOf('webhook'),
    last_event_at: timeOrNull(
      'when the last event was received, with a delay of a few seconds, of up to 90 while thousands of webhooks have events, and of up to 6 minutes from 20,000 on; null: none yet',
    ),
    last_rejection_at: timeOrNull('when the newest stored rejection was received; null: none is stored'),
    events_removed_before: timeOrNull(
      'events received before this time were removed by retention_days of the webhook; null: none yet',
    ),
  })
  .meta({ id: 'WebhookActivity' });
