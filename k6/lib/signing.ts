/** Signatures in Weir's format (specification, section 4). Uses no k6 modules, so that any runtime can test it. */

/** `hmac` of k6/crypto, or an equivalent function. */
export type Hmac = (algorithm: 'sha256', secret: string, data: string, encoding: 'hex') => string;

export const defaultSignatureHeader = 'X-Hub-Signature-256';

/** Returns `sha256=` and the hex HMAC-SHA256 of the body as UTF-8, which is how k6 sends a string. */
export function signatureOf(body: string, secret: string, hmac: Hmac): string {
  return `sha256=${hmac('sha256', secret, body, 'hex')}`;
}

/** Headers of a JSON request; a null signature leaves the request unsigned. */
export function requestHeaders(signature: string | null): Record<string, string> {
  const headers: Record<string, string> = { 'Content-Type': 'application/json' };
  if (signature !== null) headers[defaultSignatureHeader] = signature;
  return headers;
}
