/**
 * Reads the signatures that a request presents (specification, section 4). Does not compute digests; the threads do that.
 */

/** Length of an HMAC-SHA256 digest in bytes. */
const DIGEST_BYTES = 32;

/** Read when a webhook has no `signature_header`. A signature in either header may verify. */
export const defaultSignatureHeaders = ['x-hub-signature-256', 'x-webhook-signature'] as const;

const PREFIX = 'sha256=';
const HEX_DIGITS = 64;

/** The digests that the request presents, 32 bytes each, or why it presents none. */
type PresentedSignature =
  | { kind: 'digests'; digests: Uint8Array[] }
  | { kind: 'missing' }
  | { kind: 'malformed'; header: string };

/**
 * Reads the signature headers of a webhook.
 * @param headers alternating field names in lower case and values: name, value, name, value …
 * @param configured the webhook's `signature_header` in lower case; if set, only this header is read. Null: the default headers.
 */
export function presentedSignature(headers: readonly string[], configured: string | null): PresentedSignature {
  const digests: Uint8Array[] = [];
  let malformed: string | null = null;
  for (const name of configured === null ? defaultSignatureHeaders : [configured]) {
    const value = onlyValue(headers, name);
    if (value === undefined) continue;
    // With two values, the sender's is unknown: a proxy or an attacker may have added one. The whole request is refused.
    if (value === null) return { kind: 'malformed', header: name };
    const digest = parseDigest(value);
    if (digest === null) malformed = name;
    else digests.push(digest);
  }
  if (digests.length > 0) return { kind: 'digests', digests };
  return malformed === null ? { kind: 'missing' } : { kind: 'malformed', header: malformed };
}

/** The 32 bytes of `sha256=<64 hex digits>`, in either case; null if the value has another form. */
export function parseDigest(value: string): Uint8Array | null {
  if (value.length !== PREFIX.length + HEX_DIGITS || !value.startsWith(PREFIX)) return null;
  const digest = new Uint8Array(DIGEST_BYTES);
  for (let i = 0; i < DIGEST_BYTES; i++) {
    const at = PREFIX.length + 2 * i;
    const byte = (hexValue(value.charCodeAt(at)) << 4) | hexValue(value.charCodeAt(at + 1));
    if (byte < 0) return null;
    digest[i] = byte;
  }
  return digest;
}

/** The value of a hex digit in either case; -1 for another character. */
function hexValue(code: number): number {
  if (code >= 48 && code <= 57) return code - 48;
  const letter = code | 32;
  return letter >= 97 && letter <= 102 ? letter - 87 : -1;
}

/** The value of a field; undefined if absent, null if sent more than once. */
export function onlyValue(headers: readonly string[], name: string): string | null | undefined {
  let found: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== name) continue;
    if (found !== undefined) return null;
    found = headers[i + 1];
  }
  return found;
}
