/** Encrypts secrets at rest: AES-256-GCM with keys derived from SECRETS_KEY, one per purpose (NIST SP 800-38D, RFC 5869). */
import { createCipheriv, createDecipheriv, hkdfSync, randomBytes } from 'node:crypto';

const VERSION = 1;
const NONCE_BYTES = 12;
const TAG_BYTES = 16;

/** The purpose of a derived key. The key of one purpose reveals nothing about another. */
export type KeyPurpose =
  | 'webhook-secrets'
  | 'cells'
  | 'agent-sessions'
  | 'csrf'
  | 'notices'
  | 'setup'
  | 'oidc-state'
  | 'idempotency'
  | 'device-cookies'
  | 'oauth-tokens'
  | 'saved-webhooks'
  | 'backups'
  | 'fingerprint';

/** Derives the 32-byte key of a purpose from SECRETS_KEY in base64. */
export function deriveKey(secretsKeyBase64: string, purpose: KeyPurpose): Buffer {
  return Buffer.from(hkdfSync('sha256', Buffer.from(secretsKeyBase64, 'base64'), '', `weir/${purpose}`, 32));
}

/** Returns a 16-byte identifier of a key that reveals nothing about it. It is derived for this purpose only. */
export function fingerprintOf(secretsKeyBase64: string): Buffer {
  return deriveKey(secretsKeyBase64, 'fingerprint').subarray(0, 16);
}

/**
 * Encrypts bytes. The result is version, nonce, tag, ciphertext.
 * @param context authenticated with the result, e.g. the row's id: a ciphertext moved to another row cannot be decrypted.
 */
export function seal(plain: Uint8Array, key: Buffer, context: string): Buffer {
  const nonce = randomBytes(NONCE_BYTES);
  const cipher = createCipheriv('aes-256-gcm', key, nonce).setAAD(Buffer.from(context));
  const body = Buffer.concat([cipher.update(plain), cipher.final()]);
  return Buffer.concat([Buffer.of(VERSION), nonce, cipher.getAuthTag(), body]);
}

/** Decrypts the result of `seal` with the first matching key. Returns null if no key matches or the bytes were changed. */
export function unseal(sealed: Uint8Array, keys: readonly Buffer[], context: string): Buffer | null {
  return unsealBy(sealed, keys, context)?.plain ?? null;
}

/** Like `unseal`, but also returns the index of the matching key. */
export function unsealBy(
  sealed: Uint8Array,
  keys: readonly Buffer[],
  context: string,
): { plain: Buffer; keyIndex: number } | null {
  if (sealed[0] !== VERSION || sealed.length < 1 + NONCE_BYTES + TAG_BYTES) return null;
  const nonce = sealed.subarray(1, 1 + NONCE_BYTES);
  const tag = sealed.subarray(1 + NONCE_BYTES, 1 + NONCE_BYTES + TAG_BYTES);
  const body = sealed.subarray(1 + NONCE_BYTES + TAG_BYTES);
  for (const [keyIndex, key] of keys.entries()) {
    try {
      const decipher = createDecipheriv('aes-256-gcm', key, nonce, { authTagLength: TAG_BYTES }).setAAD(
        Buffer.from(context),
      );
      decipher.setAuthTag(tag);
      return { plain: Buffer.concat([decipher.update(body), decipher.final()]), keyIndex };
    } catch {
      // Wrong key or changed bytes: try the next key.
    }
  }
  return null;
}

/** Context of a webhook's verify token, so that it cannot be exchanged for a secret of the webhook. */
export function verifyTokenContext(webhookId: string): string {
  return `${webhookId} verify_token`;
}
