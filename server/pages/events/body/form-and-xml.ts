/** Form fields as a table, and XML with an indent for each level. */
import { prettyJson } from './pretty-json.ts';

/** Fields shown. */
export const FIELDS_MAX = 200;
/** Characters of a body that are read as fields. Reading 260,000 fields took 200 ms; counting them takes 2. */
export const FORM_CHARACTERS_MAX = 262_144;
/** Characters of one name or value. */
const VALUE_CHARACTERS_MAX = 16_384;
/** A longer value is not parsed as JSON. */
const JSON_CHARACTERS_MAX = 65_536;
const AMPERSAND = 0x26;

export interface FormFields {
  fields: { name: string; value: string }[];
  /** Fields that are not shown. */
  more: number;
}

/** The fields of an application/x-www-form-urlencoded body. A value that is a JSON object or array is formatted (`payload` of some senders). */
export function formFields(body: Buffer): FormFields {
  const text = body.toString('utf8');
  const { count, shown, end } = measured(text);
  // The last one is shown in part.
  const isCut = end < text.length && text.charCodeAt(end) !== AMPERSAND;
  const fields = [...new URLSearchParams(text.slice(0, end))].map(([name, value], index) => ({
    name: cut(name),
    value: readable(isCut && index === shown - 1 ? `${value}…` : value),
  }));
  return { fields, more: count - shown };
}

/** The number of fields, the number of those to show, and where these end. */
function measured(text: string): { count: number; shown: number; end: number } {
  let count = 0;
  let shown = 0;
  let end = 0;
  let isInside = false;
  for (let at = 0; at < text.length; at++) {
    const wasInside = isInside;
    isInside = text.charCodeAt(at) !== AMPERSAND;
    if (isInside && !wasInside) count++;
    if (count > FIELDS_MAX || at >= FORM_CHARACTERS_MAX) continue;
    shown = count;
    end = at + 1;
  }
  return { count, shown, end };
}

function readable(value: string): string {
  const isJson = value.length <= JSON_CHARACTERS_MAX && /^\s*[{[]/.test(value);
  const json = isJson ? prettyJson(Buffer.from(value), VALUE_CHARACTERS_MAX + 1) : null;
  return cut(json === null ? value : json.text);
}

function cut(text: string): string {
  return text.length > VALUE_CHARACTERS_MAX ? `${text.slice(0, VALUE_CHARACTERS_MAX)}…` : text;
}

/** Deeper levels have no more indent. */
const INDENTS_MAX = 40;

/**
 * Indents XML: each tag on a line of its own, an element with nothing but text on one. Text that is not XML is only broken at its angle
 * brackets. Linear in the length: a comment or CDATA section without an end is text up to the end.
 */
export function prettyXml(text: string): string {
  const lines: string[] = [];
  let depth = 0;
  const add = (line: string) => lines.push('  '.repeat(Math.min(depth, INDENTS_MAX)) + line);
  let held: string | null = null;
  const release = () => {
    if (held !== null) {
      add(held);
      depth++;
    }
    held = null;
  };
  for (let at = 0; at < text.length; ) {
    const end = endOf(text, at);
    const part = text.slice(at, end).trim();
    at = end;
    if (part === '') continue;
    if (part.startsWith('</')) {
      const name = part.slice(2, -1).trim();
      if (held?.startsWith(`<${name}`) && /^[\s>]/.test(held.slice(name.length + 1))) {
        add(held + part);
        held = null;
        continue;
      }
      release();
      depth = Math.max(0, depth - 1);
      add(part);
    } else if (/^<[^!?/]/.test(part) && part.endsWith('>') && !part.endsWith('/>')) {
      release();
      held = part;
    } else if (held !== null && !part.startsWith('<') && text.startsWith('</', at)) held += part;
    else {
      release();
      add(part);
    }
  }
  if (held !== null) add(held);
  return lines.join('\n');
}

/** End of the tag, comment, CDATA section or text that begins at `at`. */
function endOf(text: string, at: number): number {
  const until = (closing: string) => {
    const found = text.indexOf(closing, at);
    return found < 0 ? text.length : found + closing.length;
  };
  if (text.startsWith('<!--', at)) return until('-->');
  if (text.startsWith('<![CDATA[', at)) return until(']]>');
  if (text[at] === '<') return until('>');
  const next = text.indexOf('<', at);
  return next < 0 ? text.length : next;
}
