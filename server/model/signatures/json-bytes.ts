/** Steps over the values of a JSON text, byte by byte. Brackets are counted, so that depth needs no stack. */

/** Bytes of the UTF-8 byte order mark before a JSON text, which .NET writes and a parser may skip (RFC 8259, section 8.1): 3 or 0. */
export function markLength(bytes: Uint8Array): 0 | 3 {
  return bytes[0] === 0xef && bytes[1] === 0xbb && bytes[2] === 0xbf ? 3 : 0;
}

/** The same bytes as a Buffer. */
export function bufferOf({ buffer, byteOffset, length }: Uint8Array): Buffer {
  return Buffer.from(buffer as ArrayBuffer, byteOffset, length);
}

/** The bytes as text for JSON.parse, without a byte order mark. */
export function jsonText(bytes: Uint8Array): string {
  return bufferOf(bytes).toString('utf8', markLength(bytes));
}

const TAB = 0x09;
const LINE_FEED = 0x0a;
const RETURN = 0x0d;
const SPACE = 0x20;
export const QUOTE = 0x22;
export const COMMA = 0x2c;
export const COLON = 0x3a;
export const ARRAY = 0x5b;
export const BACKSLASH = 0x5c;
export const ARRAY_END = 0x5d;
export const OBJECT = 0x7b;
export const OBJECT_END = 0x7d;

const OTHER = 0;
const OPENS = 1;
const CLOSES = 2;
const STRING = 3;
/** Kind of each byte outside strings: one look-up instead of five comparisons. */
const kinds = new Uint8Array(256);
for (const [byte, kind] of [
  [OBJECT, OPENS],
  [ARRAY, OPENS],
  [OBJECT_END, CLOSES],
  [ARRAY_END, CLOSES],
  [QUOTE, STRING],
] as const)
  kinds[byte] = kind;

/** Characters of a string that are searched one by one before a native search, which costs about as much as these. */
const NEAR_CHARACTERS = 64;

/** Position after the value at `at`; -1 if the text ends before it or has no value there. */
export function afterValue(text: Buffer, at: number): number {
  const first = text[at];
  if (first === QUOTE) return afterString(text, at + 1);
  if (first === OBJECT || first === ARRAY) return afterBrackets(text, at);
  let end = at;
  for (; end < text.length; end++) {
    const byte = text[end]!;
    if (byte === COMMA || byte === OBJECT_END || byte === ARRAY_END || isSpace(byte)) break;
  }
  return end === at || end === text.length ? -1 : end;
}

/** Position after the bracket that closes the one at `at`. Does not check which kind closes which. */
function afterBrackets(text: Buffer, at: number): number {
  const { length } = text;
  let depth = 0;
  for (let next = at; next < length; next++) {
    const kind = kinds[text[next]!];
    if (kind === OTHER) continue;
    if (kind === OPENS) depth++;
    else if (kind === CLOSES) {
      if (--depth === 0) return next + 1;
    } else {
      // Written out: most strings are short, and with a call for each the scan took twice the time.
      const near = next + NEAR_CHARACTERS;
      for (next++; text[next] !== QUOTE; next++) {
        if (text[next] === BACKSLASH) next++;
        if (next < near) continue;
        next = afterString(text, next + 1) - 1;
        if (next < 0) return -1;
        break;
      }
    }
  }
  return -1;
}

/** Position after the end of a string; -1 if it does not end. @param from in the string, not inside an escape */
export function afterString(text: Buffer, from: number): number {
  const { length } = text;
  let next = from;
  for (;;) {
    const near = Math.min(length, next + NEAR_CHARACTERS);
    for (; next < near; next++) {
      const byte = text[next]!;
      if (byte === QUOTE) return next + 1;
      if (byte === BACKSLASH) next++;
    }
    if (next >= length) return -1;
    // `next` is not inside an escape, so that backslashes are counted back to there.
    const quote = text.indexOf(QUOTE, next);
    if (quote < 0) return -1;
    let slashes = 0;
    while (quote - slashes > next && text[quote - slashes - 1] === BACKSLASH) slashes++;
    if (slashes % 2 === 0) return quote + 1;
    next = quote + 1;
  }
}

/** The place of the first byte from `at` on that is not white space of JSON. */
export function afterSpace(text: Buffer, at: number): number {
  let next = at;
  while (isSpace(text[next])) next++;
  return next;
}

/** Whether a byte is white space of JSON (RFC 8259, section 2). */
export function isSpace(byte: number | undefined): boolean {
  return byte === SPACE || byte === LINE_FEED || byte === RETURN || byte === TAB;
}
