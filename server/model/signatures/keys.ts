/** Converts a webhook's secret or public key, as a person pastes it, to the bytes that verification uses. */
import { createHash, createPublicKey, type KeyObject } from 'node:crypto';
import type { Algorithm, SchemeDefinition } from './definition.ts';

/** Start of an Ed25519 public key as SubjectPublicKeyInfo (RFC 8410); the 32 bytes of the key follow. */
const ED25519_SPKI = Buffer.from('302a300506032b6570032100', 'hex');
/** Start of an uncompressed point on P-256 as SubjectPublicKeyInfo (RFC 5480); 65 bytes follow. */
const P256_SPKI = Buffer.from('3059301306072a8648ce3d020106082a8648ce3d030107034200', 'hex');
const BASE64 = /^[A-Za-z0-9+/_-]+={0,2}$/;

/** Prefix of the public and private keys of Standard Webhooks. */
const PUBLIC_KEY_MARK = /^wh[ps]k_/;

/** True if the webhook has a public key and no secret. */
export function isAsymmetric(algorithm: Algorithm): boolean {
  return algorithm === 'ed25519' || algorithm === 'ecdsa-p256';
}

/** True if the request carries the secret itself. The check then compares hashes and needs no body. */
export function isToken(algorithm: Algorithm): boolean {
  return algorithm === 'token' || algorithm === 'basic';
}

/**
 * The key of a stored secret that requests are signed with. A secret that the scheme cannot decode becomes a key that verifies nothing.
 * The key of a token is the SHA-256 of the secret, so that equal lengths are compared.
 */
export function keyOf(definition: SchemeDefinition, given: Uint8Array): Uint8Array {
  return keysOf(definition, given)[0]!;
}

/** The keys that a stored secret verifies with; keysPerSecret is their number. */
export function keysOf({ algorithm, secret }: SchemeDefinition, given: Uint8Array): Uint8Array[] {
  if (isToken(algorithm)) return [sha256(given)];
  if (secret === undefined || secret === 'text') return [given];
  const text = Buffer.from(given).toString('utf8');
  if (secret === 'text-or-base64') return [BASE64.test(bare(text)) ? decoded(text, 'base64') : given, given];
  const key = decoded(text, secret);
  return [key.length > 0 ? key : given];
}

/** Number of keys that each secret of the scheme is tried as, see keysOf. */
export function keysPerSecret({ secret }: SchemeDefinition): 1 | 2 {
  return secret === 'text-or-base64' ? 2 : 1;
}

/** What is wrong with a secret that a person gives; null: nothing. */
export function secretFault({ algorithm, secret }: SchemeDefinition, given: string): string | null {
  if (algorithm === 'basic' && !/^[^:]+:/.test(given)) return 'Give the user and the password as user:password.';
  if (secret === 'hex' && !/^(?:[0-9a-f]{2})+$/i.test(given.trim())) return 'Give the secret as hex digits.';
  if (secret === 'base64' && PUBLIC_KEY_MARK.test(given.trim()))
    return 'This is a public key or private key of Standard Webhooks: give the public key (whpk_) as public_key, and never the private one.';
  if (secret === 'base64' && !BASE64.test(bare(given)))
    return 'Give the secret in base64, as the sender shows it, with or without whsec_.';
  return null;
}

/**
 * The public key as SubjectPublicKeyInfo (DER); null if the text is not a key of the algorithm.
 * @param given PEM; or hex or base64, of the raw key or of SubjectPublicKeyInfo.
 */
export function publicKeyOf({ algorithm, secret }: SchemeDefinition, given: string): Uint8Array | null {
  try {
    const key = parsePublicKey(given.trim(), secret === 'hex' ? 'hex' : 'base64', algorithm);
    const fits =
      algorithm === 'ed25519'
        ? key.asymmetricKeyType === 'ed25519'
        : key.asymmetricKeyType === 'ec' && key.asymmetricKeyDetails?.namedCurve === 'prime256v1';
    return fits ? key.export({ format: 'der', type: 'spki' }) : null;
  } catch {
    return null;
  }
}

function parsePublicKey(given: string, encoding: 'hex' | 'base64', algorithm: Algorithm): KeyObject {
  if (given.startsWith('-----BEGIN PUBLIC KEY-----')) return createPublicKey(given);
  const hex = encoding === 'hex' || /^(?:[0-9a-f]{2}){32}$/i.test(given);
  const bytes = decoded(given, hex ? 'hex' : 'base64');
  const raw = algorithm === 'ed25519' ? { start: ED25519_SPKI, bytes: 32 } : { start: P256_SPKI, bytes: 65 };
  const key = bytes.length === raw.bytes ? Buffer.concat([raw.start, bytes]) : bytes;
  return createPublicKey({ key, format: 'der', type: 'spki' });
}

function decoded(given: string, encoding: 'hex' | 'base64'): Buffer {
  return Buffer.from(encoding === 'hex' ? given.trim() : bare(given), encoding);
}

/** Base64 without the prefix that Standard Webhooks puts before it, and without blanks around it. */
function bare(given: string): string {
  return given.trim().replace(/^(?:whsec_|whpk_)/, '');
}

/** SHA-256, 32 bytes. A text is hashed as UTF-8. */
export function sha256(bytes: Uint8Array | string): Buffer {
  return createHash('sha256').update(bytes).digest();
}
