/** Signature schemes that a definition cannot express. */
import { createHmac, timingSafeEqual } from 'node:crypto';
import { formExceeds, signedBodyHash } from './body-bounds.ts';
import { bufferOf, jsonText } from './json-bytes.ts';
import { compilePath, everyItem, type PathStep, scanJson } from './json-scan.ts';
import { sha256 } from './keys.ts';

/** Longest text that a JSON Pointer reads, in UTF-16 units: a longer id or time counts as absent. */
export const POINTER_CHARACTERS_MAX = 4_096;

/**
 * What Twilio signs: the URL, followed by each form field's name and value, sorted by name. If the URL holds bodySHA256, the URL
 * alone; null if the body has another hash, or is a form over the bounds.
 */
export function twilioContent(url: string, body: Uint8Array): string | null {
  const hash = signedBodyHash(url);
  if (hash !== null) return timingSafeEqual(Buffer.from(hash, 'hex'), sha256(body)) ? url : null;
  // The array identifies the request: each request has its own Uint8Array, even where the memory is reused.
  if (lastForm?.body !== body) lastForm = { body, fields: formExceeds(body) ? null : signedFields(body) };
  return lastForm.fields === null ? null : url + lastForm.fields;
}

/** The last form. A diagnosis checks one form with more than 100 keys in a row, and a request is checked with several URLs. */
let lastForm: { body: Uint8Array; fields: string | null } | null = null;

function signedFields(body: Uint8Array): string {
  const fields = new Map<string, Set<string>>();
  for (const [name, value] of new URLSearchParams(bufferOf(body).toString())) {
    const values = fields.get(name);
    if (values === undefined) fields.set(name, new Set([value]));
    else values.add(value);
  }
  let content = '';
  for (const name of [...fields.keys()].sort())
    for (const value of [...fields.get(name)!].sort()) content += name + value;
  return content;
}

const mailgunPaths = ['timestamp', 'token', 'signature'].map((name) => compilePath(['signature', name]));

/** Mailgun signs the time and the token in the body, not the event data. */
export function checkMailgun(key: Uint8Array, body: Uint8Array): boolean {
  const [timestamp, token, presented] = mailgunPaths.map((path) => scanJson(body, path) ?? '') as [
    string,
    string,
    string,
  ];
  // The lengths are checked so that no digit can move between time and token.
  if (!/^\d{10}$/.test(timestamp) || !/^[\w-]{16,128}$/.test(token) || !/^[0-9a-f]{64}$/i.test(presented)) return false;
  const expected = createHmac('sha256', key).update(`${timestamp}${token}`).digest();
  return timingSafeEqual(expected, Buffer.from(presented, 'hex'));
}

const notifications = compilePath(['value']);
const clientState = compilePath(['clientState']);

/** Microsoft Graph repeats the subscription's clientState in each notification of the body. */
export function checkGraph(key: Uint8Array, body: Uint8Array): boolean {
  const expected = sha256(key);
  let known: string | null = null;
  return everyItem(body, notifications, (notification) => {
    const state = readPointer(notification, clientState);
    if (state === null) return false;
    // Hashed once: a body may hold thousands of notifications.
    if (state === known) return true;
    known = state;
    return timingSafeEqual(sha256(state), expected);
  });
}

/** Reads the string or number at a compiled JSON Pointer of a body; null if it is absent or longer than POINTER_CHARACTERS_MAX. */
export function readPointer(body: Uint8Array, path: readonly PathStep[]): string | null {
  const text = scanJson(body, path, POINTER_CHARACTERS_MAX + 1);
  return text !== null && text.length > POINTER_CHARACTERS_MAX ? null : text;
}

/** The value of a short JSON body; undefined if it is not JSON. */
export function parsed(body: Uint8Array): unknown {
  try {
    return JSON.parse(jsonText(body));
  } catch {
    return undefined;
  }
}
