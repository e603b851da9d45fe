/** Form fields as a table, and XML with an indent for each level. */
import { isUtf8 } from 'node:buffer';
import { prettyJson } from './pretty-json.ts';

/** Fields shown. */
export const FIELDS_MAX = 200;
const VALUE_CHARACTERS_MAX = 16_384;

export interface FormFields {
  fields: { name: string; value: string }[];
  /** Fields that are not shown. */
  more: number;
}

/** The fields of an application/x-www-form-urlencoded body. A value that is a JSON object or array is formatted (`payload` of some senders). */
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
