/** The environment in which `--exec` runs a command for a delivery. */

import { traceparentOf } from '../../base/telemetry/trace.ts';
import type { ClaimedDelivery } from '../../deliver/client/index.ts';

interface Described {
  id: string;
  attempt: number;
  event: Omit<ClaimedDelivery['event'], 'body' | 'body_base64'>;
}

/**
 * Environment variables for the command of a delivery. TRACEPARENT, TRACESTATE and BAGGAGE are those of the sender's request, as
 * OpenTelemetry reads them. One that the request does not have is undefined: the command gets neither an empty one nor that of this process.
 */
export function environmentOf({ id, attempt, event }: Described): Record<string, string | undefined> {
  const traceparent = traceparentOf(event.headers.traceparent);
  return {
    WEIR_DELIVERY_ID: id,
    WEIR_EVENT_ID: event.id,
    WEIR_WEBHOOK_ID: event.webhook_id,
    WEIR_WEBHOOK_NAME: event.webhook_name,
    WEIR_ATTEMPT: String(attempt),
    WEIR_RECEIVED_AT: event.received_at,
    WEIR_EVENT_TYPE: event.event_type ?? '',
    WEIR_CONTENT_TYPE: event.content_type ?? '',
    WEIR_REQUEST_ID: event.headers['x-request-id'] ?? '',
    TRACEPARENT: traceparent,
    TRACESTATE: traceparent && (event.headers.tracestate || undefined),
    BAGGAGE: event.headers.baggage || undefined,
    WEIR_HEADERS: JSON.stringify(event.headers),
  };
}
