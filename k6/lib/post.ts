/** The only module that uses k6's modules for sending and signing. */
import { hmac } from 'k6/crypto';
import { b64decode } from 'k6/encoding';
import exec from 'k6/execution';
import http, { type RefinedResponse, type ResponseType } from 'k6/http';
import { Counter } from 'k6/metrics';
import type { Target } from './environment.ts';
import { payloadOf } from './payloads.ts';
import { isRepeatable, signatureHeaders } from './signing.ts';

export type Response = RefinedResponse<ResponseType | undefined>;

/** Options of one request besides its content. */
export interface Extra {
  tags?: Record<string, string>;
  /** 'text' keeps the response's body when the script's options discard bodies. */
  responseType?: 'text';
  /** In milliseconds. */
  timeout?: number;
}

/** Signs a body by the scheme, with k6's HMAC, the current time and a new id. Returns the headers to send. */
export function sign({ url, secret, scheme }: Target, body: string): Record<string, string> {
  const timeMs = Date.now();
  // Unique over runs too: Weir stores an id once.
  const id = `k6-${timeMs}-${Math.random().toString(36).slice(2)}`;
  return signatureHeaders(scheme, { body, secret, url, id, timeMs }, { hmac, b64decode });
}

/**
 * Posts a body.
 * @param signature headers from `sign`; none send the request unsigned
 * @param expectedStatus the status that k6 does not count in http_req_failed
 */
export function post(
  url: string,
  body: string,
  signature: Record<string, string>,
  expectedStatus: number,
  { tags, ...extra }: Extra = {},
): Response {
  return http.post(url, body, {
    headers: { 'Content-Type': 'application/json', ...signature },
    responseCallback: http.expectedStatuses(expectedStatus),
    // One name for all webhooks: the webhook id in the URL would create a separate time series.
    tags: { name: 'POST /in/{webhook_id}', ...tags },
    ...extra,
  });
}

const rateLimited = new Counter('weir_rate_limited_429');
const unavailable = new Counter('weir_unavailable_503');

/**
 * Returns a function that sends signed requests and expects 202. It counts 429 and 503.
 *
 * Each virtual user creates its body once, and its signature too if the scheme allows it: CPU that k6 uses is not available
 * to a server on the same machine.
 */
export function sender(target: Target & { bodyBytes: number }) {
  let body: string | null = null;
  let signature: Record<string, string> | null = null;
  return function send(extra?: Extra): Response {
    body ??= payloadOf(target.bodyBytes, exec.vu.idInTest);
    if (signature === null || !isRepeatable(target.scheme)) signature = sign(target, body);
    const answer = post(target.url, body, signature, 202, extra);
    if (answer.status === 429) rateLimited.add(1);
    if (answer.status === 503) unavailable.add(1);
    return answer;
  };
}
