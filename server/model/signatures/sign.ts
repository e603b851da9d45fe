/** Signs a request as a sender does: for test requests, forwarded events, the command line and tests. */
import { createHmac, createPrivateKey, type KeyObject, sign as signBytes } from 'node:crypto';
import { twilioContent } from './code-schemes.ts';
import type { SchemeDefinition } from './definition.ts';
import { objectOf, setMember } from './event-type.ts';
import { isAsymmetric, keyOf } from './keys.ts';
import { fieldOf, headerOf, pointerOf } from './sources.ts';

interface Unsigned {
  body: Buffer;
  method: string;
  /** URL of the webhook as the sender knows it, with its query. */
  url: string;
  /** Id of the event, for schemes with one. */
  id: string;
  timeMs: number;
  /** True: the body is not changed. A time or signature that the scheme has in the body stays as the sender wrote it. */
  exact?: boolean;
}

export interface Signed {
  /** Names in lower case. */
  headers: Record<string, string>;
  /** The body to send: some schemes carry the time or the signature in it. */
  body: Buffer;
}

/** Raised when a request cannot be signed: the key is of the wrong kind, or the body cannot carry what the scheme needs. */
export class CannotSign extends Error {}

/**
 * Signs a request by a definition.
 * @param secret the secret; for a scheme with a public key, the private key in PEM, or in base64 after whsk_ (Standard Webhooks).
 * @throws CannotSign
 */
export function signRequest(definition: SchemeDefinition, secret: Uint8Array, request: Unsigned): Signed {
  const { algorithm, header, timestamp, id } = definition;
  const time = String(timestamp?.unit === 'ms' ? request.timeMs : Math.floor(request.timeMs / 1000));
  const timePath = pointerOf(timestamp?.from);
  const headers: Record<string, string> = {};
  const putsTime = !request.exact && timePath !== null && algorithm !== 'mailgun' && algorithm !== 'microsoft-graph';
  const body = putsTime ? withMember(request.body, timePath, Number(time)) : request.body;
  const timeHeader = headerOf(timestamp?.from);
  if (timeHeader !== null) headers[timeHeader] = time;
  const idHeader = headerOf(id);
  if (idHeader !== null) headers[idHeader] = request.id;

  switch (algorithm) {
    case 'token':
      return { headers: { ...headers, [header!]: `${definition.prefix ?? ''}${textOf(secret)}` }, body };
    case 'basic':
      return { headers: { ...headers, [header!]: `Basic ${Buffer.from(secret).toString('base64')}` }, body };
    case 'mailgun':
      if (request.exact) return { headers, body };
      return { headers, body: withMember(body, ['signature'], mailgunSignature(secret, time, request.id)) };
    case 'microsoft-graph':
      if (request.exact) return { headers, body };
      return { headers, body: Buffer.from(JSON.stringify({ value: [{ clientState: textOf(secret) }] })) };
  }
  const text = (definition.content ?? '{body}').split('{body}').map((part) => Buffer.from(filled(part)));
  const message = Buffer.concat([text[0]!, body, text[1]!]);
  const signature = signatureOf(message).toString(definition.encoding ?? 'hex');
  return { headers: { ...headers, [header ?? 'x-hub-signature-256']: headerValue(definition, time, signature) }, body };

  function filled(part: string): string {
    const values: Record<string, string> = {
      timestamp: time,
      id: request.id,
      url: request.url,
      method: request.method,
    };
    return part.replace(/\{(timestamp|id|url|method)\}/g, (_, name: string) => values[name]!);
  }

  function signatureOf(message: Buffer): Buffer {
    if (isAsymmetric(algorithm)) {
      const key = privateKey(secret);
      if (algorithm === 'ed25519' ? key.asymmetricKeyType !== 'ed25519' : key.asymmetricKeyType !== 'ec')
        throw new CannotSign(`The private key is not one of ${algorithm}.`);
      return signBytes(algorithm === 'ed25519' ? null : 'sha256', message, key);
    }
    const key = keyOf(definition, secret);
    if (algorithm === 'twilio') {
      const content = twilioContent(request.url, body);
      if (content === null)
        throw new CannotSign('The form has more fields or bytes than Weir reads, or another hash than its URL.');
      return createHmac('sha1', key).update(content).digest();
    }
    return createHmac(algorithm.slice('hmac-'.length), key).update(message).digest();
  }
}

/** The value of the signature header, with the time if the scheme has it there. */
export function headerValue(definition: SchemeDefinition, time: string, signature: string): string {
  const { items, pair, key, prefix, timestamp } = definition;
  const marked = `${prefix ?? ''}${signature}`;
  const item = pair ? `${key ?? ''}${pair}${marked}` : marked;
  const timeField = fieldOf(timestamp?.from);
  return timeField === null ? item : `${timeField}${pair}${time}${items}${item}`;
}

function mailgunSignature(key: Uint8Array, timestamp: string, id: string) {
  const token = Buffer.from(id).toString('hex').slice(0, 50).padEnd(50, '0');
  return { timestamp, token, signature: createHmac('sha256', key).update(`${timestamp}${token}`).digest('hex') };
}

/** Start of an Ed25519 private key as PrivateKeyInfo (RFC 8410); the 32 bytes of the seed follow. */
const ED25519_PKCS8 = Buffer.from('302e020100300506032b657004220420', 'hex');
const SEED_BYTES = 32;

function privateKey(given: Uint8Array): KeyObject {
  const text = textOf(given).trim();
  try {
    if (!text.startsWith('whsk_')) return createPrivateKey(text);
    // Some libraries write the public key behind the seed.
    const seed = Buffer.from(text.slice('whsk_'.length), 'base64').subarray(0, SEED_BYTES);
    return createPrivateKey({ key: Buffer.concat([ED25519_PKCS8, seed]), format: 'der', type: 'pkcs8' });
  } catch {
    throw new CannotSign(
      'The private key cannot be read; give it in PEM, without a passphrase, or as whsk_ and base64.',
    );
  }
}

/** Sets a member of a JSON object. @param path names from the outermost object on. @throws CannotSign when the body is not an object */
function withMember(body: Buffer, path: readonly string[], member: unknown): Buffer {
  const object = objectOf(body.toString('utf8'));
  if (object === null) throw new CannotSign('The scheme puts its time or signature into the body: give a JSON object.');
  setMember(object, path, member);
  return Buffer.from(JSON.stringify(object));
}

function textOf(secret: Uint8Array): string {
  return Buffer.from(secret).toString('utf8');
}
