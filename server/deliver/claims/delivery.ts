/** A claimed delivery as its agent gets it. */
import { readStoredHeaders } from '../../model/signatures/stored-headers.ts';
import { bytesOf, utf8Of } from '../../store/byte-text.ts';
import { uuidv7Time } from '../../store/ids.ts';
import type { Claimed } from '../../store/queries/claims/order.ts';
import { receiptText } from '../../store/queries/claims/receipts.ts';

export function receiptOf({ id, lease }: Claimed) {
  return { deliveryId: id, lease };
}

/** The delivery as in the API. */
export function deliveryOf(claimed: Claimed): object {
  const body = utf8Of(claimed.body);
  const event = {
    id: claimed.eventId,
    webhook_id: claimed.webhookId,
    webhook_name: claimed.webhookName,
    received_at: uuidv7Time(claimed.eventId),
    event_type: claimed.eventType,
    content_type: claimed.contentType,
    headers: readStoredHeaders(utf8Of(claimed.headers) ?? bytesOf(claimed.headers).toString('utf8')),
    ...(body === null ? { body_base64: bytesOf(claimed.body).toString('base64') } : { body }),
  };
  return {
    id: claimed.id,
    receipt: receiptText(receiptOf(claimed)),
    attempt: claimed.attempt,
    leased_until: claimed.leasedUntil,
    event,
  };
}
