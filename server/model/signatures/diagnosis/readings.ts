/**
 * Candidate bodies: other bytes that a sender may have signed instead of the received body, each with its reason. Candidate keys: common ways
 * to misread the secret (hex, base64, quotes, spaces, line end).
 */
import { isUtf8 } from 'node:buffer';
import type { RejectionReason } from './reasons.ts';

type Reading = readonly [RejectionReason, Uint8Array];

/** Bodies that the sender may have signed, likeliest first. */
export function* bodyReadings(body: Buffer): Generator<Reading> {
  yield ['body_empty', Buffer.alloc(0)];
  const text = isUtf8(body) ? body.toString('utf8') : null;
  for (const [reason, reading] of text === null ? [] : textReadings(text)) yield [reason, Buffer.from(reading)];
  if (text === null) {
    // The sender decoded the bytes as text and signed the result: invalid bytes became replacement characters or Latin-1.
    yield ['body_charset', Buffer.from(body.toString('utf8'))];
    yield ['body_charset', Buffer.from(body.toString('latin1'))];
  } else {
    yield ['body_charset', Buffer.from(text, 'latin1')];
    yield ['body_charset', Buffer.from(text, 'utf16le')];
  }
}

function* textReadings(text: string): Generator<readonly [RejectionReason, string]> {
  yield ['body_line_end', text.replace(/\r?\n$/, '')];
  yield ['body_line_end', `${text}\n`];
  yield ['body_line_end', `${text}\r\n`];
  // trim() also removes the byte order mark.
  yield ['body_trimmed', text.trim()];
  yield ['body_trimmed', `\ufeff${text}`];
  const unix = text.replaceAll('\r\n', '\n');
  yield ['body_line_breaks', unix];
  yield ['body_line_breaks', unix.replaceAll('\n', '\r\n')];
  for (const reading of jsonReadings(text)) yield ['body_reencoded', reading];
  for (const reading of formReadings(text)) yield ['body_form_decoded', reading];
}

/** A form as the sender may have had it before encoding: the whole text decoded, and each value alone. At most 16. */
function formReadings(text: string): string[] {
  if (!/^[\w.[\]%+-]+=/.test(text)) return [];
  try {
    return [decodeURIComponent(text.replaceAll('+', ' ')), ...new URLSearchParams(text).values()].slice(0, 16);
  } catch {
    return [];
  }
}

/** Differences between serializers: spaces after separators, and which characters are escaped (in strings only). */
const separators = [
  [',', ':'],
  [', ', ': '],
] as const;
const escapers: readonly ((json: string) => string)[] = [
  (json) => json,
  // Python.
  asciiOnly,
  // PHP.
  (json) => asciiOnly(json).replaceAll('/', '\\/'),
  // Go.
  (json) => json.replace(/[<>&\u2028\u2029]/g, escaped),
];

/** The same JSON as other serializers write it; empty if the text is not JSON. */
function jsonReadings(text: string): Set<string> {
  const readings = new Set<string>();
  try {
    const value: unknown = JSON.parse(text);
    const own = tokensOf(text);
    const again = JSON.stringify(value);
    // The original tokens keep the spelling of numbers, and the order of keys that JavaScript would change.
    for (const tokens of [own, own.map(normalized), tokensOf(again), tokensOf(sortedJson(value))])
      for (const [comma, colon] of separators) {
        const json = joined(tokens, comma, colon);
        // Escapes whole texts; escaping token by token takes four times as long.
        if (!readings.has(json)) for (const escaper of escapers) readings.add(escaper(json));
      }
    for (const indent of [2, 4, '\t']) readings.add(JSON.stringify(value, null, indent));
  } catch {
    // Not JSON, or nested so deeply that the serializer overflows the stack.
  }
  return readings;
}

/** Tokens of valid JSON: strings, punctuation, and literals (numbers, true, false, null). */
function tokensOf(json: string): string[] {
  return json.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g) ?? [];
}

/** Removes unnecessary escapes from a string token. */
function normalized(token: string): string {
  return token.includes('\\') ? JSON.stringify(JSON.parse(token)) : token;
}

function joined(tokens: readonly string[], comma: string, colon: string): string {
  let text = '';
  for (const token of tokens) text += token === ',' ? comma : token === ':' ? colon : token;
  return text;
}

function sortedJson(value: unknown): string {
  if (Array.isArray(value)) return `[${value.map(sortedJson).join(',')}]`;
  if (value === null || typeof value !== 'object') return JSON.stringify(value);
  const entries = Object.entries(value).sort(([a], [b]) => (a < b ? -1 : 1));
  return `{${entries.map(([key, item]) => `${JSON.stringify(key)}:${sortedJson(item)}`).join(',')}}`;
}

function asciiOnly(json: string): string {
  return json.replace(/[^\0-\x7f]/g, escaped);
}

/** JSON escape of one UTF-16 code unit. */
function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}

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
function decodedKeys(secret: string): Buffer[] {
  const keys: Buffer[] = [];
  if (/^(?:[0-9a-f]{2})+$/i.test(secret)) keys.push(Buffer.from(secret, 'hex'));
  const base64 = secret.replace(/^whsec_/, '');
  if (base64 !== secret) keys.push(Buffer.from(base64));
  if (/^[A-Za-z0-9+/_-]{4,}={0,2}$/.test(base64)) keys.push(Buffer.from(base64, 'base64'));
  return keys;
}
