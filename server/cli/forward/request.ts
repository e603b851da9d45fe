/** The request that forwards a delivery: the stored headers, the exact body, and a new signature. */
import type { SchemeDefinition } from '../../model/signatures/definition.ts';
import { signRequest } from '../../model/signatures/sign.ts';
import { headerOf } from '../../model/signatures/sources.ts';

/** What is forwarded of a delivery. */
export interface ForwardedDelivery {
  readonly id: string;
  /** Starts at 1. */
  readonly attempt: number;
  readonly event: {
    readonly id: string;
    readonly webhook_id: string;
    readonly webhook_name: string;
    readonly event_type: string | null;
    readonly content_type: string | null;
    readonly headers: Readonly<Record<string, string>>;
    readonly body: Buffer;
  };
}

export interface ForwardRequest {
  /** Names in lower case, values as node:http takes them. */
  headers: Record<string, string>;
  body: Buffer;
}

/** How the requests for the events of one webhook are signed; null: not at all. */
export type Signing = { definition: SchemeDefinition; key: Buffer } | null;

/** Weir stores requests of this method only, so it is the method of every event. */
export const FORWARD_METHOD = 'POST';

/** Fields of one connection (RFC 9110, 7.6.1), and those that describe the message to the first receiver only. */
const leftOut = new Set([
  ...['connection', 'keep-alive', 'proxy-connection', 'proxy-authenticate', 'proxy-authorization', 'te', 'trailer'],
  ...['transfer-encoding', 'upgrade', 'http2-settings', 'host', 'content-length', 'expect'],
]);

/**
 * Builds the request. `weir-delivery-id` is the same for each attempt, so that the target can skip a delivery that it has handled.
 * Throws CannotSign.
 * @param url address of the target, for schemes that sign it
 */
export function forwardRequest(
  { id, attempt, event }: ForwardedDelivery,
  signing: Signing,
  url: URL,
  timeMs: number,
): ForwardRequest {
  const headers: Record<string, string> = {};
  const named = (event.headers.connection ?? '').split(',').map((name) => name.trim().toLowerCase());
  for (const [name, value] of Object.entries(event.headers))
    if (!leftOut.has(name) && !named.includes(name) && !name.startsWith('weir-')) headers[name] = latin1(value);
  if (event.content_type !== null) headers['content-type'] ??= latin1(event.content_type);
  if (signing !== null) {
    const { definition, key } = signing;
    // The sender's id, if it was stored: the target may know the event by it.
    const idHeader = headerOf(definition.id);
    const signed = signRequest(definition, key, {
      body: event.body,
      method: FORWARD_METHOD,
      url: url.href,
      id: (idHeader !== null && headers[idHeader]) || event.id,
      timeMs,
      exact: true,
    });
    Object.assign(headers, signed.headers);
  }
  headers['content-length'] = String(event.body.length);
  headers['weir-delivery-id'] = id;
  headers['weir-event-id'] = event.id;
  headers['weir-attempt'] = String(attempt);
  return { headers, body: event.body };
}

/** Field values are bytes. Text beyond Latin-1, which node:http refuses, is sent as UTF-8. */
function latin1(value: string): string {
  return /^[\0-\xff]*$/.test(value) ? value : Buffer.from(value, 'utf8').toString('latin1');
}
