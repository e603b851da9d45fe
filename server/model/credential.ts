/**
 * Credentials, such as `wa_…` of agents and `wu_…` of users: `<kind>_<lookup id>_<secret><check digits>`. A credential is
 * found by its lookup id in one index probe and compared by hash. With the check digits a secret scanner can tell a real
 * credential from a look-alike, and Weir refuses a mistyped one without a query.
 */
import { createHash, createHmac, randomInt } from 'node:crypto';

const ALPHABET = '0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz';
const LOOKUP_CHARACTERS = 12;
/** 43 of 62 characters: 256 bits. */
const SECRET_CHARACTERS = 43;
const CHECK_CHARACTERS = 6;

/** `wa`: an agent's; `wu`: a user's API token; of an OAuth grant `wc`: authorization code, `wo`: access token, `wr`: refresh token. */
export type CredentialKind = 'wa' | 'wu' | 'wc' | 'wo' | 'wr';

const shape = new RegExp(
  `^(wa|wu|wc|wo|wr)_([0-9A-Za-z]{${LOOKUP_CHARACTERS}})_([0-9A-Za-z]{${SECRET_CHARACTERS}})([0-9A-Za-z]{${CHECK_CHARACTERS}})$`,
);

interface Credential {
  lookupId: string;
  /** SHA-256 of the secret part, 32 bytes; this is what is stored. */
  secretHash: Buffer;
}

/** Creates a credential. `text` is shown once; the other fields are stored. @param lookupId that of the OAuth grant. @param secret see derivedSecret */
export function createCredential(
  kind: CredentialKind,
  lookupId = randomText(LOOKUP_CHARACTERS),
  secret = randomText(SECRET_CHARACTERS),
): Credential & { text: string } {
  const text = `${kind}_${lookupId}_${secret}${checkDigits(lookupId, secret)}`;
  return { text, lookupId, secretHash: hashSecret(secret) };
}

/** Parses a presented credential. Returns null when the kind, the shape or the check digits are wrong. */
export function parseCredential(kind: CredentialKind, text: string): Credential | null {
  const match = shape.exec(text);
  if (match === null || match[1] !== kind) return null;
  const [, , lookupId, secret, check] = match as unknown as [string, string, string, string, string];
  return checkDigits(lookupId, secret) === check ? { lookupId, secretHash: hashSecret(secret) } : null;
}

/** Derives a secret part from a key and a text. It has 255 bits, because bytes modulo 62 are not evenly distributed. */
export function derivedSecret(text: string, key: Buffer): string {
  const bytes = createHmac('sha512', key).update(text).digest().subarray(0, SECRET_CHARACTERS);
  return Array.from(bytes, (byte) => ALPHABET[byte % ALPHABET.length]).join('');
}

function hashSecret(secret: string): Buffer {
  return createHash('sha256').update(secret).digest();
}

function checkDigits(lookupId: string, secret: string): string {
  let number = createHash('sha256').update(`weir/credential/${lookupId}/${secret}`).digest().readUIntBE(0, 6);
  let digits = '';
  for (let i = 0; i < CHECK_CHARACTERS; i++) {
    digits += ALPHABET[number % ALPHABET.length];
    number = Math.floor(number / ALPHABET.length);
  }
  return digits;
}

function randomText(characters: number): string {
  return Array.from({ length: characters }, () => ALPHABET[randomInt(ALPHABET.length)]).join('');
}
