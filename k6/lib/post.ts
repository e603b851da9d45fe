/** The one place that touches k6's own modules for sending and signing. */
import { hmac } from 'k6/crypto';
import http, { type RefinedResponse, type ResponseType } from 'k6/http';
import { requestHeaders, signatureOf } from './signing.ts';

/** Signs a body with k6's HMAC. */
export function sign(body: string, secret: string): string {
  return signatureOf(body, secret, hmac);
}

/**
 * Posts a body. @param signature null: unsigned
 * @param expectedStatus the answer that k6 is not to count in http_req_failed
 */
export function post(
  url: string,
  body: string,
  signature: string | null,
  expectedStatus: number,
): RefinedResponse<ResponseType | undefined> {
  return http.post(url, body, {
    headers: requestHeaders(signature),
    responseCallback: http.expectedStatuses(expectedStatus),
    // One name for all: the webhook's id in the address would make a time series of its own.
    tags: { name: 'POST /in/{webhook_id}' },
  });
}
