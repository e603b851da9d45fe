/** The changer of webhooks: for their own operations and for moves between cells. */
import type { Actor } from '../../../store/audit/actor.ts';
import { findWebhook, lockWebhook, type WebhookRecord } from '../../../store/queries/webhooks/webhooks.ts';
import { type ChangeParts, Changer } from '../change.ts';

/** @param actor author of the changes */
export function webhookChanger(parts: ChangeParts, actor: Actor): Changer<WebhookRecord> {
  return new Changer(parts, actor, {
    name: 'webhook',
    unknown: 'webhook_unknown',
    lock: lockWebhook,
    find: findWebhook,
  });
}
