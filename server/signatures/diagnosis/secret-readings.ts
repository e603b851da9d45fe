/** Which other keys a sender may have signed with that are the secret misread. */
import type { Reading } from './body-readings.ts';

/** Keys that a sender may have made of the secret; the likeliest first. */
export function* secretReadings(secret: Buffer): Generator<Reading> {
  const text = secret.toString('utf8');
  const bare = text.trim().replace(/^(["'])(.*)\1$/s, '$2');
  for (const key of [bare, bare.trim(), `${text}\n`, `${text}\r\n`, `${text} `, ` ${text}`, `"${text}"`, `'${text}'`])
    yield ['secret_space', Buffer.from(key)];
  for (const key of decodedKeys(bare)) yield ['secret_decoded', key];
}

/** What senders have when their setting is empty or not read; of no use to guess a secret with. */
export const unsetSecrets: readonly string[] = ['', 'undefined', 'null', 'None', 'nil'];

/** The secret as hex or base64 says it; Standard Webhooks writes `whsec_` before the latter. */
export function decodedKeys(secret: string): Buffer[] {
  const keys: Buffer[] = [];
  if (/^(?:[0-9a-f]{2})+$/i.test(secret)) keys.push(Buffer.from(secret, 'hex'));
  const base64 = secret.replace(/^whsec_/, '');
  if (base64 !== secret) keys.push(Buffer.from(base64));
  if (/^[A-Za-z0-9+/_-]{4,}={0,2}$/.test(base64)) keys.push(Buffer.from(base64, 'base64'));
  return keys;
}
