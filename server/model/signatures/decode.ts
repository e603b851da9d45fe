/** Decodes one signature of a header: its encoding and length, a token, or user and password. */
import { SIGNATURE_BYTES } from './check.ts';
import type { SchemeDefinition } from './definition.ts';
import { isToken, sha256 } from './keys.ts';

const PADDING_CHARACTERS_MAX = 2;
const alphabets = { hex: /^[0-9a-f]+$/i, base64: /^[A-Za-z0-9+/]+={0,2}$/, base64url: /^[A-Za-z0-9_-]+={0,2}$/ };

/** Returns a function that decodes one signature; it returns null for text that is not a signature. */
export function decoder(algorithm: SchemeDefinition['algorithm'], encoding: keyof typeof alphabets, mark: string) {
  const bytes = SIGNATURE_BYTES[algorithm];
  if (isToken(algorithm))
    return (text: string): Uint8Array | null => {
      const token =
        algorithm === 'basic' ? basicCredentials(text) : text.startsWith(mark) ? text.slice(mark.length) : '';
      return token.length === 0 ? null : sha256(token);
    };
  return (text: string): Uint8Array | null => {
    if (!text.startsWith(mark)) return null;
    const bare = text.slice(mark.length);
    // Hex takes two characters a byte, base64 fewer.
    if (bare.length > bytes * 2 + PADDING_CHARACTERS_MAX) return null;
    if (!alphabets[encoding].test(bare)) return null;
    const signature = Buffer.from(bare, encoding);
    // Refuses a text with bits beyond the signature: each signature has one spelling, save the case of hex and the padding.
    if (encoding !== 'hex' && signature.toString(encoding).replace(/=+$/, '') !== bare.replace(/=+$/, '')) return null;
    if (algorithm === 'ecdsa-p256') return derSignature(signature, bytes);
    return signature.length === bytes && (encoding !== 'hex' || bare.length === bytes * 2) ? signature : null;
  };
}

/** User and password of `Basic BASE64` (RFC 7617). */
function basicCredentials(value: string): Uint8Array | string {
  const encoded = /^basic +([A-Za-z0-9+/]+={0,2})$/i.exec(value)?.[1];
  return encoded === undefined ? '' : Buffer.from(encoded, 'base64');
}

/** A signature in DER, padded to `bytes`; null if its length is wrong. */
function derSignature(signature: Buffer, bytes: number): Uint8Array | null {
  if (signature.length > bytes || signature[0] !== 0x30 || signature[1] !== signature.length - 2) return null;
  return Buffer.concat([signature], bytes);
}
