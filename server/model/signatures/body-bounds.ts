/**
 * Bounds of the bodies that a check reads beyond their hash. A body is parsed before its signature is verified, so an unauthenticated client
 * could send a costly one: a form of 1 MiB with distinct short names took 1 to 2 s of a thread, and every request of its batch was answered
 * 503. A body within the bounds takes a few milliseconds.
 */
import type { SchemeDefinition } from './definition.ts';
import { SCANNED_BYTES_MAX } from './json-scan.ts';

/** Largest bodies of each kind. The guide Senders compares them with the bodies that the senders send. */
export const FORM_FIELDS_MAX = 1_000;
export const FORM_BYTES_MAX = 131_072;
/** Mandrill sends up to 1,000 events in one field. Decoding this many bytes takes 13 ms if each is escaped. */
export const SHORT_FORM_FIELDS_MAX = 16;
export const SHORT_FORM_BYTES_MAX = 524_288;
/** Three members of a Mailgun body are read, each by a scan. */
export const MAILGUN_BYTES_MAX = 262_144;
export const JSON_BYTES_MAX = SCANNED_BYTES_MAX;

/** Hex SHA-256 of the body, which Twilio puts into the URL of a request that is not a form. */
const BODY_HASH = /[?&]bodySHA256=([0-9a-fA-F]{64})(?:&|$)/;
const AMPERSAND = 0x26;

/** Whether a body is too large or too complex to be checked. The URL is that which the sender signed. */
export type ExceedsBounds = (url: string, body: Uint8Array) => boolean;

/** The bounds of a scheme; null: its check reads no body beyond the hash. */
export function boundsOf({ algorithm, timestamp, id }: SchemeDefinition): ExceedsBounds | null {
  if (algorithm === 'twilio') return (url, body) => signedBodyHash(url) === null && formExceeds(body);
  if (algorithm === 'mailgun') return (_, body) => body.length > MAILGUN_BYTES_MAX;
  const readsJson = algorithm === 'microsoft-graph' || [timestamp?.from, id].some((from) => from?.startsWith('json:'));
  return readsJson ? (_, body) => body.length > JSON_BYTES_MAX : null;
}

/** Whether a form has more bytes or fields than are read. */
export function formExceeds(body: Uint8Array): boolean {
  if (body.length > SHORT_FORM_BYTES_MAX) return true;
  const fieldsMax = body.length > FORM_BYTES_MAX ? SHORT_FORM_FIELDS_MAX : FORM_FIELDS_MAX;
  let fields = 1;
  for (let at = body.indexOf(AMPERSAND); at >= 0; at = body.indexOf(AMPERSAND, at + 1))
    if (++fields > fieldsMax) return true;
  return false;
}

/** The hash of the body that the URL of Twilio holds; null: the body is a form. */
export function signedBodyHash(url: string): string | null {
  return BODY_HASH.exec(url)?.[1] ?? null;
}
