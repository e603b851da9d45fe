/** Which other bytes a sender may have signed instead of the body that came, and what that tells. */
import { isUtf8 } from 'node:buffer';
import type { RejectionReason } from './reasons.ts';

export type Reading = readonly [RejectionReason, Uint8Array];

/** Bodies that the sender may have meant; the likeliest first. */
export function* bodyReadings(body: Buffer): Generator<Reading> {
  yield ['body_empty', Buffer.alloc(0)];
  const text = isUtf8(body) ? body.toString('utf8') : null;
  for (const [reason, reading] of text === null ? [] : textReadings(text)) yield [reason, Buffer.from(reading)];
  if (text === null) {
    // Read as text by a sender that signed what it then had: each bad byte is a replacement character, or Latin-1.
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
  // trim() takes the byte order mark too.
  yield ['body_trimmed', text.trim()];
  yield ['body_trimmed', `\ufeff${text}`];
  const unix = text.replaceAll('\r\n', '\n');
  yield ['body_line_breaks', unix];
  yield ['body_line_breaks', unix.replaceAll('\n', '\r\n')];
  for (const reading of jsonReadings(text)) yield ['body_reencoded', reading];
  for (const reading of formReadings(text)) yield ['body_form_decoded', reading];
}

/** The fields of a form as a sender may have had them before it encoded them: all of it decoded, and each value alone. */
function formReadings(text: string): string[] {
  if (!/^[\w.[\]%+-]+=/.test(text)) return [];
  try {
    return [decodeURIComponent(text.replaceAll('+', ' ')), ...new URLSearchParams(text).values()].slice(0, 16);
  } catch {
    return [];
  }
}

/** How serializers differ: in the white space after the marks, and in what they escape, which stands in strings alone. */
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

/** The same JSON as other serializers write it; none when the text is no JSON. */
function jsonReadings(text: string): Set<string> {
  const readings = new Set<string>();
  try {
    const value: unknown = JSON.parse(text);
    const own = tokensOf(text);
    const again = JSON.stringify(value);
    // Its own tokens too: numbers as they were written, and keys that JavaScript would put in another order.
    for (const tokens of [own, own.map(normalized), tokensOf(again), tokensOf(sortedJson(value))])
      for (const [comma, colon] of separators) {
        const json = joined(tokens, comma, colon);
        // Whole texts, not token by token, which takes four times as long.
        if (!readings.has(json)) for (const escaper of escapers) readings.add(escaper(json));
      }
    for (const indent of [2, 4, '\t']) readings.add(JSON.stringify(value, null, indent));
  } catch {
    // No JSON, or nested so deeply that a serializer runs out of stack.
  }
  return readings;
}

/** Of valid JSON: strings, marks, and words (numbers, true, false, null). */
function tokensOf(json: string): string[] {
  return json.match(/"[^"\\]*(?:\\.[^"\\]*)*"|[{}[\],:]|[^\s"{}[\],:]+/g) ?? [];
}

/** A string with no more escapes than it needs. */
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

/** Of one UTF-16 unit, as JSON escapes it. */
function escaped(unit: string): string {
  return `\\u${unit.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
