/** Views of a stored body: JSON as a tree or formatted, fields of a form, indented XML, text, hex, or its difference to another body. */

import { isUtf8 } from 'node:buffer';
import { structuredPatch } from 'diff';
import type { PreviousEvent } from '../../../store/queries/events/neighbours.ts';
import {
  escapeHidden,
  formatted,
  jsonTree,
  prettyJson,
  TREE_VALUES_MAX,
  validJson,
  WHOLE_TREE_VALUES_MAX,
} from './json.ts';

type BodyView = 'tree' | 'pretty' | 'form' | 'xml' | 'raw' | 'hex' | 'diff';

/** A page shows at most this much text; the whole body can be downloaded. */
const SHOWN_BYTES_MAX = 65_536;
/** Formatted JSON is mostly white space. */
const PRETTY_CHARACTERS_MAX = 262_144;
/** Formatted JSON that is compared with another. */
const COMPARED_CHARACTERS_MAX = 131_072;
/** A larger body is not parsed. This much takes 9 ms as one string, 20 ms as numbers, and 78 ms as nested brackets, the worst case. */
const PARSED_BYTES_MAX = 2_097_152;
/** Hex takes more than four characters for each byte. */
const HEX_BYTES_MAX = 8_192;

interface ShownBody {
  view: BodyView;
  /** Views available for this body, the most readable first. */
  views: BodyView[];
  text: string;
  /** Escaped HTML, for the view tree. */
  tree: string | null;
  /** The fields, for the view form. */
  form: FormFields | null;
  /** Null when the whole body is shown, or the view says what is missing. */
  shownBytes: number | null;
  /** False: a tree or formatted JSON is cut. */
  complete: boolean;
  /** Number of values of a larger tree that can be requested; null when the tree cannot be larger. */
  moreValues: number | null;
}

/**
 * Returns a view of a stored body.
 * @param wanted the view in the URL; if it is null or not available, the most readable view
 * @param whole a tree has up to WHOLE_TREE_VALUES_MAX values
 */
export function showBody(body: Buffer, contentType: string | null, wanted: string | null, whole = false): ShownBody {
  const text = textOf(body);
  const parsed = text !== null && body.length > 0 && body.length <= PARSED_BYTES_MAX;
  const json = parsed ? validJson(body) : null;
  const form = parsed && json === null && isForm(contentType) ? formFields(body) : null;
  const isXml =
    parsed &&
    json === null &&
    (/[/+]xml\b/i.test(contentType ?? '') || /^\s*<\?xml\s/.test(text.toString('utf8', 0, 100)));
  const views: BodyView[] = [
    ...(json === null ? [] : (['tree', 'pretty'] as const)),
    ...(form === null ? [] : ['form' as const]),
    ...(isXml ? ['xml' as const] : []),
    ...(text === null ? [] : ['raw' as const]),
    'hex',
    ...(text === null ? [] : ['diff' as const]),
  ];
  const view = views.find((one) => one === wanted) ?? views[0]!;
  const shown = { view, views, text: '', tree: null, form: null, shownBytes: null, complete: true, moreValues: null };
  switch (view) {
    case 'tree': {
      const { html, complete, full } = jsonTree(json!, whole ? WHOLE_TREE_VALUES_MAX : TREE_VALUES_MAX);
      return { ...shown, tree: html, complete, moreValues: full && !whole ? WHOLE_TREE_VALUES_MAX : null };
    }
    case 'pretty': {
      const { text: pretty, complete } = formatted(json!, PRETTY_CHARACTERS_MAX);
      return { ...shown, text: escapeHidden(pretty), complete };
    }
    case 'form':
      return { ...shown, form };
    case 'xml':
      return { ...shown, text: prettyXml(text!.toString('utf8')), shownBytes: partly(text!, body) };
    case 'raw':
      return { ...shown, text: text!.toString('utf8'), shownBytes: partly(text!, body) };
    case 'hex': {
      const part = body.subarray(0, HEX_BYTES_MAX);
      return { ...shown, text: hexDump(part), shownBytes: partly(part, body) };
    }
    // The page compares the bodies, see diffOf.
    case 'diff':
      return shown;
  }
}

/** The text of a body in lines, as it is compared: JSON formatted, other text as it is. Null: it is not text. */
export function comparable(body: Buffer): { text: string; complete: boolean } | null {
  const json = body.length > 0 && body.length <= PARSED_BYTES_MAX ? validJson(body) : null;
  if (json !== null) return formatted(json, COMPARED_CHARACTERS_MAX);
  const text = textOf(body);
  return text === null ? null : { text: text.toString('utf8'), complete: text.length === body.length };
}

function isForm(contentType: string | null): boolean {
  return /^application\/x-www-form-urlencoded\b/i.test(contentType ?? '');
}

function partly(part: Buffer, body: Buffer): number | null {
  return part.length === body.length ? null : part.length;
}

/** The part of a text to show; null when the body is not UTF-8 or contains NUL, which browsers do not show. */
function textOf(body: Buffer): Buffer | null {
  const part = body.length > SHOWN_BYTES_MAX ? wholeCharacters(body.subarray(0, SHOWN_BYTES_MAX)) : body;
  return isUtf8(part) && !part.includes(0) ? part : null;
}

/** Removes a character that is cut off at the end. */
function wholeCharacters(bytes: Buffer): Buffer {
  let end = bytes.length;
  while (end > 0 && bytes.length - end < 3 && (bytes[end - 1]! & 0xc0) === 0x80) end--;
  const last = bytes[end - 1] ?? 0;
  const characterBytes = last >= 0xf0 ? 4 : last >= 0xe0 ? 3 : last >= 0xc0 ? 2 : 1;
  return bytes.length - end + 1 < characterBytes ? bytes.subarray(0, end - 1) : bytes;
}

/** Formats bytes sixteen a line: offset, hex, and printable ASCII. */
function hexDump(bytes: Uint8Array): string {
  const lines: string[] = [];
  for (let at = 0; at < bytes.length; at += 16) {
    const line = [...bytes.subarray(at, at + 16)];
    const hex = line.map((byte) => byte.toString(16).padStart(2, '0'));
    const halves = `${hex.slice(0, 8).join(' ')}  ${hex.slice(8).join(' ')}`;
    const text = line.map((byte) => (byte >= 0x20 && byte < 0x7f ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${halves.padEnd(48)}  ${text}`);
  }
  return lines.join('\n');
}

export const FIELDS_MAX = 200;
const VALUE_CHARACTERS_MAX = 16_384;

interface FormFields {
  fields: { name: string; value: string }[];
  /** Fields that are not shown. */
  more: number;
}

/** The fields of a form body; null: it is not UTF-8. A value that is a JSON object or array is formatted (`payload` of some senders). */
export function formFields(body: Buffer): FormFields | null {
  if (!isUtf8(body)) return null;
  const all = [...new URLSearchParams(body.toString('utf8'))];
  const fields = all.slice(0, FIELDS_MAX).map(([name, value]) => ({ name, value: readable(value) }));
  return { fields, more: all.length - fields.length };
}

function readable(value: string): string {
  const json = /^\s*[{[]/.test(value) ? prettyJson(Buffer.from(value), VALUE_CHARACTERS_MAX) : null;
  const text = json === null ? value : json.text;
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
}

/** Deepest level that is indented. */
const INDENTS_MAX = 40;

/** A comment, CDATA section, tag or text. A part without an end takes the rest of the text, so that the time is linear. */
const xmlPart = /<!--[\s\S]*?(?:-->|$)|<!\[CDATA\[[\s\S]*?(?:\]\]>|$)|<[^>]*(?:>|$)|[^<]+/g;

/**
 * Indents XML: each tag on a line of its own, and an element with only text on one line. Text that is not XML is only broken at its angle
 * brackets.
 */
export function prettyXml(text: string): string {
  const parts = [...text.matchAll(xmlPart)].map(([part]) => part.trim()).filter((part) => part !== '');
  const lines: string[] = [];
  let depth = 0;
  for (let at = 0; at < parts.length; at++) {
    const part = parts[at]!;
    if (part.startsWith('</')) depth = Math.max(0, depth - 1);
    const isOpening = /^<[^!?/]/.test(part) && part.endsWith('>') && !part.endsWith('/>');
    const [, name] = /^<([^\s>]*)/.exec(part) ?? [];
    const texts = isOpening && !parts[at + 1]?.startsWith('<') ? 1 : 0;
    const end = parts[at + 1 + texts];
    const isWhole = isOpening && isEndOf(name!, end);
    const line = isWhole ? parts.slice(at, at + 2 + texts).join('') : part;
    lines.push('  '.repeat(Math.min(depth, INDENTS_MAX)) + line);
    if (isWhole) at += 1 + texts;
    else if (isOpening) depth++;
  }
  return lines.join('\n');
}

/** Whether the part is the end tag of an element. Blanks in it are trimmed: a pattern for them took 3 s for 60 KB of blanks. */
function isEndOf(name: string, part: string | undefined): boolean {
  const start = `</${name}`;
  return part?.startsWith(start) === true && part.slice(start.length).trim() === '>';
}

/** Limit on added and removed lines. This many take 20 ms in JSON of 94 KB, twice as many 40 ms; in 60,000 lines of one character 100 ms. */
const EDITS_MAX = 200;
const CONTEXT_LINES = 3;

/**
 * Compares two bodies. `groups`: changed lines with the lines around them, empty if the bodies are equal; null if they cannot be compared or
 * differ too much. `complete`: false if only the beginnings were compared.
 * @param previous undefined when no earlier event was found near in time
 */
export function diffOf(body: Buffer, previous: PreviousEvent | undefined) {
  if (previous === undefined) return { previous: null, groups: null, complete: true };
  const { body: oldBody, ...named } = previous;
  const [before, after] = [comparable(oldBody), comparable(body)];
  if (before === null || after === null) return { previous: named, groups: null, complete: true };
  const patch = structuredPatch('', '', before.text, after.text, '', '', {
    context: CONTEXT_LINES,
    maxEditLength: EDITS_MAX,
  });
  const groups = patch?.hunks.map(({ lines }) => lines.filter((line) => !line.startsWith('\\')).map(lineOf)) ?? null;
  return { previous: named, groups, complete: before.complete && after.complete };
}

const kinds: Record<string, string> = { '+': 'added', '-': 'removed', ' ': 'same' };

function lineOf(line: string) {
  return { kind: kinds[line[0]!]!, text: line.slice(1) };
}
