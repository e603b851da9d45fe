/** JSON with one member or element a line. */
import { jsonFault } from '../../../base/http/json-text.ts';
import { jsonText } from '../../../model/signatures/json-bytes.ts';

const INDENT = '  ';
/** Matches JSON tokens only; white space between tokens is skipped. */
export const jsonToken = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/**
 * Characters without a shape and those that change the direction of the text around them, by which a value can look like another one.
 * Not U+200C and U+200D, which some scripts and emoji need.
 */
const hidden = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

/** JSON text with the hidden characters as escapes (`\u202e`), which leaves its values as they are. */
export function visible(json: string): string {
  return json.replace(hidden, (character) => `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`);
}

interface Pretty {
  text: string;
  /** False: it was cut at `charactersMax`. */
  complete: boolean;
}

/**
 * Formats JSON; null when the bytes are not JSON text. Only white space changes: JSON.parse and JSON.stringify would change long numbers
 * and drop repeated names. Stops at the first token that begins after `charactersMax`.
 */
export function prettyJson(bytes: Uint8Array, charactersMax = Number.POSITIVE_INFINITY): Pretty | null {
  const json = validJson(bytes);
  return json === null ? null : formatted(json, charactersMax);
}

/** The bytes as text; null when they are not JSON. */
export function validJson(bytes: Uint8Array): string | null {
  return jsonFault(bytes) === null ? jsonText(bytes) : null;
}

/** Like prettyJson. @param json valid JSON */
export function formatted(json: string, charactersMax: number): Pretty {
  let out = '';
  let depth = 0;
  let before = '';
  const newLine = () => `\n${INDENT.repeat(depth)}`;
  for (const [text] of json.matchAll(jsonToken)) {
    if (out.length > charactersMax) return { text: out.slice(0, charactersMax), complete: false };
    const opened = before === '{' || before === '[';
    if (text === '}' || text === ']') {
      depth--;
      out += opened ? text : newLine() + text;
    } else {
      if (opened || before === ',') out += newLine();
      out += text === ':' ? ': ' : text;
      if (text === '{' || text === '[') depth++;
    }
    before = text;
  }
  return {
    text: out.length > charactersMax ? out.slice(0, charactersMax) : out,
    complete: out.length <= charactersMax,
  };
}
