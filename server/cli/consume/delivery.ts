/** A claimed delivery, and the work on it. */
import { traceparentOf } from '../../telemetry/trace.ts';

/** A delivery in the response to a claim. */
export interface Delivery {
  id: string;
  /** Identifies this delivery and this attempt. */
  receipt: string;
  /** Starts at 1. */
  attempt: number;
  event: {
    id: string;
    webhook_id: string;
    webhook_name: string;
    received_at: string;
    event_type: string | null;
    content_type: string | null;
    headers: Record<string, string>;
    /** Present when the bytes are UTF-8 without NUL; otherwise body_base64. */
    body?: string;
    body_base64?: string;
  };
}

/** Checks that an element of a response has the required fields; other fields are passed on unchanged. */
export function isDelivery(value: unknown): value is Delivery {
  if (typeof value !== 'object' || value === null) return false;
  const { id, receipt, event } = value as Partial<Delivery>;
  return typeof id === 'string' && typeof receipt === 'string' && typeof event === 'object' && event !== null;
}

/** The body as the sender sent it. */
export function deliveryBody({ event }: Delivery): Buffer {
  return event.body === undefined ? Buffer.from(event.body_base64 ?? '', 'base64') : Buffer.from(event.body, 'utf8');
}

/**
 * Environment variables for the command of a delivery. TRACEPARENT and TRACESTATE are those of the sender's request, as OpenTelemetry
 * reads them; without any they are empty, so that the command does not continue a trace of this process.
 */
export function environmentOf({ id, attempt, event }: Delivery): Record<string, string> {
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
    TRACEPARENT: traceparent ?? '',
    TRACESTATE: traceparent === undefined ? '' : (event.headers.tracestate ?? ''),
    WEIR_HEADERS: JSON.stringify(event.headers),
  };
}

/** Result of the work. `broken`: this delivery failed, and all others would fail in the same way. */
export type WorkOutcome = { kind: 'done' } | { kind: 'failed'; reason: string } | { kind: 'broken'; reason: string };

export interface Work {
  /** Never rejects. */
  verdict: Promise<WorkOutcome>;
  /** Asks the work to stop soon. */
  stop: () => void;
  /** Stops the work at once. */
  kill: () => void;
}

export type Worker = (delivery: Delivery) => Work;
