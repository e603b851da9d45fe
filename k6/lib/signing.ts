/** Signatures as Weir checks them (specification, section 4). Free of k6's modules, so that any runtime can test it. */

/** k6/crypto's `hmac`, or anything that computes the same. */
export type Hmac = (algorithm: 'sha256', secret: string, data: string, encoding: 'hex') => string;

export const defaultSignatureHeader = 'X-Hub-Signature-256';

/** `sha256=` and the HMAC-SHA256, in hex, of the body as UTF-8: the bytes that k6 sends for a string. */
export function signatureOf(body: string, secret: string, hmac: Hmac): string {
  return `sha256=${hmac('sha256', secret, body, 'hex')}`;
}

/** The headers of a JSON request; a signature of null leaves it unsigned. */
export function requestHeaders(signature: string | null): Record<string, string> {
  const headers: Record<string, string> = { 'Content-Type': 'application/json' };
  if (signature !== null) headers[defaultSignatureHeader] = signature;
  return headers;
}
