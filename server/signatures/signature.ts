/**
 * Which signatures a request presents (specification, section 4). No digest is computed here: that is the threads' work.
 */

/** Length of an HMAC-SHA256 digest. */
export const DIGEST_BYTES = 32;

/** Looked at when a webhook names no header of its own; either may verify. */
export const defaultSignatureHeaders = ['x-hub-signature-256', 'x-webhook-signature'] as const;

const PREFIX = 'sha256=';
const HEX_DIGITS = 64;

/** Digests that the request claims, 32 bytes each; or why it claims none. */
type PresentedSignature =
  | { kind: 'digests'; digests: Uint8Array[] }
  | { kind: 'missing' }
  | { kind: 'malformed'; header: string };

/**
 * Reads the signature headers that count for a webhook.
 * @param headers field names in lower case and their values, in turn: name, value, name, value …
 * @param configured the webhook's `signature_header` in lower case; then it alone counts.
 */
export function presentedSignature(headers: readonly string[], configured: string | null): PresentedSignature {
  const digests: Uint8Array[] = [];
  let malformed: string | null = null;
  for (const name of configured === null ? defaultSignatureHeaders : [configured]) {
    const value = onlyValue(headers, name);
    if (value === undefined) continue;
    // Two values leave open which one the sender meant: a proxy or an attacker added one. The whole request is refused.
    if (value === null) return { kind: 'malformed', header: name };
    const digest = parseDigest(value);
    if (digest === null) malformed = name;
    else digests.push(digest);
  }
  if (digests.length > 0) return { kind: 'digests', digests };
  return malformed === null ? { kind: 'missing' } : { kind: 'malformed', header: malformed };
}

/** The 32 bytes of `sha256=<64 hex digits>`, hex in any case; null when the value has another shape. */
export function parseDigest(value: string): Uint8Array | null {
  if (value.length !== PREFIX.length + HEX_DIGITS || !value.startsWith(PREFIX)) return null;
  const digest = Buffer.from(value.slice(PREFIX.length), 'hex');
  // Buffer.from stops at the first character that is no hex digit.
  return digest.length === DIGEST_BYTES ? digest : null;
}

/** The value of a field; undefined when absent, null when it was sent more than once. */
function onlyValue(headers: readonly string[], name: string): string | null | undefined {
  let found: string | undefined;
  for (let i = 0; i < headers.length; i += 2) {
    if (headers[i] !== name) continue;
    if (found !== undefined) return null;
    found = headers[i + 1];
  }
  return found;
}
