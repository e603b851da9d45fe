/** Secrets at rest: AES-256-GCM under keys derived from SECRETS_KEY, one for each purpose (NIST SP 800-38D, RFC 5869). */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** What a derived key is for; one purpose's key tells nothing about another's. */
export type KeyPurpose =
  | 'webhook-secrets'
  | 'agent-sessions'
  | 'csrf'
  | 'setup'
  | 'oidc-state'
  | 'idempotency'
  | 'device-cookies'
  | 'fingerprint';

/** Derives the 32 byte key of a purpose from the base64 of SECRETS_KEY. */
export function deriveKey(secretsKeyBase64: string, purpose: KeyPurpose): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.from(secretsKeyBase64, 'base64'), '', `weir/${purpose}`, 32));
}

/** Names a key without revealing anything about it: 16 bytes, derived for this purpose alone. */
export function fingerprintOf(secretsKeyBase64: string): Buffer {
  return deriveKey(secretsKeyBase64, 'fingerprint').subarray(0, 16);
}

/**
 * Encrypts bytes: version, nonce, tag, ciphertext.
 * @param context bound to the result, e.g. the row's id: a ciphertext moved to another row does not open.
 */
export function seal(plain: Uint8Array, key: Buffer, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body]);
}

/** Opens what `seal` made with the first of the keys that fits; null when none does or the bytes were changed. */
export function unseal(sealed: Uint8Array, keys: readonly Buffer[], context: string): Buffer | null {
  return unsealBy(sealed, keys, context)?.plain ?? null;
}

/** The same, with the place of the key that fits. */
export function unsealBy(
  sealed: Uint8Array,
  keys: readonly Buffer[],
  context: string,
): { plain: Buffer; place: number } | null {
  if (sealed[0] !== VERSION || sealed.length < 1 + NONCE_BYTES + TAG_BYTES) return null;
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const tag = sealed.subarray(1 + NONCE_BYTES, 1 + NONCE_BYTES + TAG_BYTES);
  const body = sealed.subarray(1 + NONCE_BYTES + TAG_BYTES);
  for (const [place, key] of keys.entries()) {
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(
        Buffer.from(context),
      );
      decipher.setAuthTag(tag);
      return { plain: Buffer.concat([decipher.update(body), decipher.final()]), place };
    } catch {
      // Not this key, or not these bytes: the next key decides.
    }
  }
  return null;
}
