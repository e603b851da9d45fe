/** A delivery as a claim hands it over. */
export interface Delivery {
  id: string;
  /** Names this delivery and this attempt. */
  receipt: string;
  /** From 1. */
  attempt: number;
  event: {
    id: string;
    webhook_id: string;
    webhook_name: string;
    received_at: string;
    content_type: string | null;
    headers: Record<string, string>;
    /** Where the bytes are UTF-8 without NUL; else body_base64. */
    body?: string;
    body_base64?: string;
  };
}

/** Whether an answer's element can be worked on; what else it holds is passed on as it is. */
export function isDelivery(value: unknown): value is Delivery {
  if (typeof value !== 'object' || value === null) return false;
  const { id, receipt, event } = value as Partial<Delivery>;
  return typeof id === 'string' && typeof receipt === 'string' && typeof event === 'object' && event !== null;
}

/** The bytes that the webhook's sender sent. */
export function bodyOf({ event }: Delivery): Buffer {
  return event.body === undefined ? Buffer.from(event.body_base64 ?? '', 'base64') : Buffer.from(event.body, 'utf8');
}

/** What a command learns about its delivery. */
export function environmentOf({ id, attempt, event }: Delivery): Record<string, string> {
  return {
    WEIR_DELIVERY_ID: id,
    WEIR_EVENT_ID: event.id,
    WEIR_WEBHOOK_ID: event.webhook_id,
    WEIR_WEBHOOK_NAME: event.webhook_name,
    WEIR_ATTEMPT: String(attempt),
    WEIR_RECEIVED_AT: event.received_at,
    WEIR_CONTENT_TYPE: event.content_type ?? '',
    WEIR_HEADERS: JSON.stringify(event.headers),
  };
}
