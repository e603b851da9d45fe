/** The only module that uses k6's modules for sending and signing. */
import { hmac } from 'k6/crypto';
import exec from 'k6/execution';
import http, { type RefinedResponse, type ResponseType } from 'k6/http';
import { Counter } from 'k6/metrics';
import { payloadOf } from './payloads.ts';
import { requestHeaders, signatureOf } from './signing.ts';

export type Response = RefinedResponse<ResponseType | undefined>;

/** Options of one request besides its content. */
export interface Extra {
  tags?: Record<string, string>;
  /** 'text' keeps the response's body when the script's options discard bodies. */
  responseType?: 'text';
  /** In milliseconds. */
  timeout?: number;
}

/** Signs a body with k6's HMAC. */
export function sign(body: string, secret: string): string {
  return signatureOf(body, secret, hmac);
}

/**
 * Posts a body.
 * @param signature null sends the request unsigned
 * @param expectedStatus the status that k6 does not count in http_req_failed
 */
export function post(
  url: string,
  body: string,
  signature: string | null,
  expectedStatus: number,
  { tags, ...extra }: Extra = {},
): Response {
  return http.post(url, body, {
    headers: requestHeaders(signature),
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
 * Each virtual user creates its body and signature once: CPU that k6 uses is not available to a server on the same machine.
 */
export function sender({ url, secret, bodyBytes }: { url: string; secret: string; bodyBytes: number }) {
  let signed: { body: string; signature: string } | null = null;
  return function send(extra?: Extra): Response {
    signed ??= signedPayload(bodyBytes, secret);
    const answer = post(url, signed.body, signed.signature, 202, extra);
    if (answer.status === 429) rateLimited.add(1);
    if (answer.status === 503) unavailable.add(1);
    return answer;
  };
}

function signedPayload(bodyBytes: number, secret: string): { body: string; signature: string } {
  const body = payloadOf(bodyBytes, exec.vu.idInTest);
  return { body, signature: sign(body, secret) };
}
