/** Candidate keys: common ways to misread the secret (hex, base64, quotes, spaces, line end). */
import type { Reading } from './body-readings.ts';

/** Keys that a sender may derive from the secret by mistake, likeliest first. */
export function* secretReadings(secret: Buffer): Generator<Reading> {
  const text = secret.toString('utf8');
  const bare = text.trim().replace(/^(["'])(.*)\1$/s, '$2');
  for (const key of [bare, bare.trim(), `${text}\n`, `${text}\r\n`, `${text} `, ` ${text}`, `"${text}"`, `'${text}'`])
    yield ['secret_space', Buffer.from(key)];
  for (const key of decodedKeys(bare)) yield ['secret_decoded', key];
}

/** Keys of senders whose setting is empty or not read. They do not help to guess a secret. */
export const unsetSecrets: readonly string[] = ['', 'undefined', 'null', 'None', 'nil'];

/** The secret decoded as hex or base64. Standard Webhooks puts the prefix `whsec_` before base64. */
export function decodedKeys(secret: string): Buffer[] {
  const keys: Buffer[] = [];
  if (/^(?:[0-9a-f]{2})+$/i.test(secret)) keys.push(Buffer.from(secret, 'hex'));
  const base64 = secret.replace(/^whsec_/, '');
  if (base64 !== secret) keys.push(Buffer.from(base64));
  if (/^[A-Za-z0-9+/_-]{4,}={0,2}$/.test(base64)) keys.push(Buffer.from(base64, 'base64'));
  return keys;
}
