/** Signature schemes that a definition cannot express. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { sha256 } from './keys.ts';

/**
 * Largest body that is parsed as JSON, in bytes. A thread has 64 MB for values: 1 MiB of brackets, the worst case, takes 0.5 s and
 * fits. A longer body has no members, so that it verifies nothing.
 */
export const PARSED_BYTES_MAX = 1_048_576;
/** Hex SHA-256 of the body, which Twilio puts into the URL of a request that is no form. */
const BODY_HASH = /[?&]bodySHA256=([0-9a-fA-F]{64})(?:&|$)/;

/**
 * What Twilio signs: the URL, followed by each form field's name and value, sorted by name. If the URL holds bodySHA256, the URL
 * alone; null if the body has another hash.
 */
export function twilioContent(url: string, body: Uint8Array): string | null {
  const hash = BODY_HASH.exec(url)?.[1];
  if (hash !== undefined) return timingSafeEqual(Buffer.from(hash, 'hex'), sha256(body)) ? url : null;
  const fields = new Map<string, Set<string>>();
  for (const [name, value] of new URLSearchParams(textOf(body))) {
    const values = fields.get(name);
    if (values === undefined) fields.set(name, new Set([value]));
    else values.add(value);
  }
  let content = url;
  for (const name of [...fields.keys()].sort())
    for (const value of [...fields.get(name)!].sort()) content += name + value;
  return content;
}

/** Mailgun signs the time and the token in the body, not the event data. */
export function checkMailgun(key: Uint8Array, body: Uint8Array): boolean {
  const signature = member(parsed(body), 'signature');
  const [timestamp, token, claimed] = ['timestamp', 'token', 'signature'].map((name) => member(signature, name));
  // The lengths are checked so that no digit can move between time and token.
  if (!/^\d{10}$/.test(String(timestamp)) || typeof token !== 'string' || !/^[\w-]{16,128}$/.test(token)) return false;
  if (typeof claimed !== 'string' || !/^[0-9a-f]{64}$/i.test(claimed)) return false;
  const expected = createHmac('sha256', key).update(`${timestamp}${token}`).digest();
  return timingSafeEqual(expected, Buffer.from(claimed, 'hex'));
}

/** Microsoft Graph repeats the subscription's clientState in each notification of the body. */
export function checkGraph(key: Uint8Array, body: Uint8Array): boolean {
  const notifications = member(parsed(body), 'value');
  if (!Array.isArray(notifications) || notifications.length === 0) return false;
  const expected = sha256(key);
  return notifications.every((notification) => {
    const state = member(notification, 'clientState');
    return typeof state === 'string' && timingSafeEqual(sha256(state), expected);
  });
}

/** Reads a JSON Pointer (RFC 6901) in a body. Returns the text of a string or number; null if there is none. */
export function readPointer(body: Uint8Array, path: readonly string[]): string | null {
  let value = parsed(body);
  for (const name of path) value = member(value, name);
  return typeof value === 'string' || typeof value === 'number' ? String(value) : null;
}

function member(value: unknown, name: string): unknown {
  return typeof value === 'object' && value !== null && Object.hasOwn(value, name)
    ? (value as Record<string, unknown>)[name]
    : undefined;
}

/** The value of a JSON body; undefined if it is not JSON or longer than PARSED_BYTES_MAX. */
export function parsed(body: Uint8Array): unknown {
  if (body.length > PARSED_BYTES_MAX) return undefined;
  try {
    return JSON.parse(textOf(body));
  } catch {
    return undefined;
  }
}

function textOf({ buffer, byteOffset, length }: Uint8Array): string {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, length).toString('utf8');
}
