/**
 * Reads one member of a JSON text without parsing the rest: ingest often needs only the type of an event from a body of up to 1 MiB.
 * For 1 MiB a scan takes 2.2 ms, and parsing 5.6 (bench/NOTES.md).
 *
 * Values beside the path are skipped (json-bytes.ts). The first member of a name counts. What follows it is not checked, except that the
 * last byte must close the first bracket.
 *
 * Each scan has a limit on its bytes and on the members that it steps over, because an unauthenticated client may have sent the body.
 * Without them 1 MiB of short escaped names took 300 to 700 ms.
 */
import {
  ARRAY,
  ARRAY_END,
  afterSpace,
  afterString,
  afterValue,
  BACKSLASH,
  bufferOf,
  COLON,
  COMMA,
  isSpace,
  markLength,
  OBJECT,
  OBJECT_END,
  QUOTE,
} from './json-bytes.ts';

/** Longest text of a value, in UTF-16 units. The rest is cut off. */
export const SCANNED_CHARACTERS_MAX = 200;
/** Bytes of a text that are scanned. A member behind them is not found. */
export const SCANNED_BYTES_MAX = 1_048_576;
/** Members and items that one scan steps over. */
export const SCANNED_MEMBERS_MAX = 10_000;
/** A name with an escape is decoded before it is compared. This takes as long as stepping over this number of members. */
const ESCAPED_NAME_MEMBERS = 10;
/** The longest beginning of a string that consists of whole characters and escapes. */
const wholeEscapes = /^(?:[^\\]|\\u[0-9a-fA-F]{4}|\\["\\/bfnrt])*/;
const number = /^-?\d[\d.eE+-]*$/;

/** A step of a compiled path. */
export interface PathStep {
  readonly name: string;
  /** The name in quotes, as JSON without escapes has it. */
  readonly quoted: Buffer;
  /** Index in an array; -1: the name is not an index. */
  readonly index: number;
  /** The name is always written as it is: no sender escapes these characters. */
  readonly plain: boolean;
}

/** Compiles the decoded names of a JSON Pointer (RFC 6901). */
export function compilePath(names: readonly string[]): readonly PathStep[] {
  return names.map((name) => ({
    name,
    quoted: Buffer.from(`"${name}"`),
    index: /^(0|[1-9]\d{0,6})$/.test(name) ? Number(name) : -1,
    plain: /^[\w.-]+$/.test(name),
  }));
}

/**
 * The string or number at this path, cut to `charactersMax` UTF-16 units; null if it is absent, or if the text is not JSON up to
 * there. Never throws. @param body bytes of the text; any bytes are allowed.
 */
export function scanJson(
  body: Uint8Array,
  path: readonly PathStep[],
  charactersMax = SCANNED_CHARACTERS_MAX,
): string | null {
  const text = beginning(body);
  if (text === null) return null;
  const at = positionOf(text, path);
  return at < 0 ? null : valueAt(text, at, charactersMax);
}

/** Like scanJson, for a string alone. */
export function scanString(body: Uint8Array, path: readonly PathStep[], charactersMax: number): string | null {
  const text = beginning(body);
  const at = text === null ? -1 : positionOf(text, path);
  return text !== null && text[at] === QUOTE ? valueAt(text, at, charactersMax) : null;
}

/** Whether the array at this path has items and each passes the test, which gets the bytes of the item. */
export function everyItem(body: Uint8Array, path: readonly PathStep[], test: (item: Uint8Array) => boolean): boolean {
  const text = beginning(body);
  const at = text === null ? -1 : positionOf(text, path);
  if (text === null || at < 0 || text[at] !== ARRAY) return false;
  for (let next = afterSpace(text, at + 1), left = SCANNED_MEMBERS_MAX; left > 0; left--) {
    const end = afterValue(text, next);
    if (end < 0 || !test(text.subarray(next, end))) return false;
    const comma = afterSpace(text, end);
    if (text[comma] === ARRAY_END) return true;
    if (text[comma] !== COMMA) return false;
    next = afterSpace(text, comma + 1);
  }
  return false;
}

/** The bytes that are scanned; null if the text is truncated, so that none of its members counts. */
function beginning(body: Uint8Array): Buffer | null {
  const whole = bufferOf(body);
  const mark = markLength(whole);
  const text = mark === 0 ? whole : whole.subarray(mark);
  return isClosed(text) ? text.subarray(0, SCANNED_BYTES_MAX) : null;
}

/** Position of the value at a path; -1 if it is absent. */
function positionOf(text: Buffer, path: readonly PathStep[]): number {
  let at = afterSpace(text, 0);
  const last = path[path.length - 1]!;
  // A native search: most bodies without the member end here.
  if (last.plain && last.index < 0 && text.indexOf(last.quoted) < 0) return -1;
  membersLeft = SCANNED_MEMBERS_MAX;
  for (const step of path) {
    at = text[at] === OBJECT ? memberOf(text, at, step) : text[at] === ARRAY ? itemOf(text, at, step.index) : -1;
    if (at < 0) return -1;
  }
  return at;
}

/** Members that the scan may still step over; set by positionOf, since a scan runs to its end in one turn. */
let membersLeft = 0;

/** Whether the last byte closes the first bracket: a truncated body has no type. Blanks around them count as bytes of the scan. */
function isClosed(text: Buffer): boolean {
  let at = 0;
  while (at < SCANNED_BYTES_MAX && isSpace(text[at])) at++;
  let end = text.length - 1;
  const endMin = Math.max(at, end - SCANNED_BYTES_MAX);
  while (end > endMin && isSpace(text[end])) end--;
  return text[at] === OBJECT ? text[end] === OBJECT_END : text[at] === ARRAY && text[end] === ARRAY_END;
}

/** Position of the value of a member; -1 if it is absent. @param at of the bracket */
function memberOf(text: Buffer, at: number, step: PathStep): number {
  let next = afterSpace(text, at + 1);
  while (text[next] === QUOTE && membersLeft-- > 0) {
    const keyEnd = afterString(text, next + 1);
    if (keyEnd < 0) return -1;
    const colon = afterSpace(text, keyEnd);
    if (text[colon] !== COLON) return -1;
    const value = afterSpace(text, colon + 1);
    if (isKey(text, next, keyEnd, step)) return value;
    const end = afterValue(text, value);
    if (end < 0) return -1;
    const comma = afterSpace(text, end);
    if (text[comma] !== COMMA) return -1;
    next = afterSpace(text, comma + 1);
  }
  return -1;
}

/** Position of an item; -1 if it is absent. */
function itemOf(text: Buffer, at: number, index: number): number {
  if (index < 0 || index > membersLeft) return -1;
  membersLeft -= index;
  let next = afterSpace(text, at + 1);
  for (let skipped = 0; skipped < index; skipped++) {
    const end = afterValue(text, next);
    if (end < 0) return -1;
    const comma = afterSpace(text, end);
    if (text[comma] !== COMMA) return -1;
    next = afterSpace(text, comma + 1);
  }
  return text[next] === ARRAY_END ? -1 : next;
}

function isKey(text: Buffer, start: number, end: number, { name, quoted, plain }: PathStep): boolean {
  if (end - start === quoted.length) {
    let i = 0;
    while (i < quoted.length && text[start + i] === quoted[i]) i++;
    if (i === quoted.length) return true;
  }
  // Some senders escape slashes and characters that are not ASCII.
  if (plain || end - start > name.length * 6 + 2) return false;
  let i = start;
  while (i < end && text[i] !== BACKSLASH) i++;
  if (i === end) return false;
  membersLeft -= ESCAPED_NAME_MEMBERS;
  return unescaped(text.toString('utf8', start + 1, end - 1)) === name;
}

/** The text of the string or number at `at`, cut to `charactersMax`; null if it is another value, or malformed. */
function valueAt(text: Buffer, at: number, charactersMax: number): string | null {
  const end = afterValue(text, at);
  if (end < 0) return null;
  if (text[at] !== QUOTE) {
    const token = text.toString('latin1', at, Math.min(end, at + charactersMax));
    return number.test(token) ? token : null;
  }
  // Enough bytes for this number of characters, even if each is an escape of six bytes.
  const last = Math.min(end - 1, at + 1 + (charactersMax + 2) * 6);
  const raw = text.toString('utf8', at + 1, last);
  if (!raw.includes('\\')) return raw.slice(0, charactersMax);
  return unescaped(raw, last < end - 1)?.slice(0, charactersMax) ?? null;
}

/** @param isCut the text may end inside an escape */
function unescaped(raw: string, isCut = false): string | null {
  const whole = wholeEscapes.exec(raw)![0];
  if (!isCut && whole.length < raw.length) return null;
  try {
    return JSON.parse(`"${whole}"`) as string;
  } catch {
    return null;
  }
}
