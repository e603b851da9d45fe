/** Makes untrusted text safe for a terminal. */

/** C0, DEL and C1 controls; bidirectional marks, embeddings, overrides and isolates; line and paragraph separators. */
const hidden = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
/** The hidden characters that JSON.stringify does not escape. */
const leftByJson = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Escapes characters that control a terminal or hide or reorder text, e.g. as `\x1b` or `\u202e`. Keeps line feeds and tabs. */
export function visible(text: string): string {
  return text.replace(hidden, (character) =>
    character === '\n' || character === '\t' ? character : escaped(character),
  );
}

/** Like `visible`, and also escapes line feeds and tabs, for text that must stay in one line or column. */
export function visibleLine(text: string): string {
  return text.replace(hidden, escaped);
}

/** Applies `visibleLine` to each text of a server's document, so that no text begins a new line. Bytes are unchanged. */
export function visibleDocument<T>(document: T): T;
export function visibleDocument(document: unknown): unknown {
  if (typeof document === 'string') return visibleLine(document);
  if (Array.isArray(document)) return document.map(visibleDocument);
  if (document instanceof Map) return new Map(visibleDocument([...document]));
  if (typeof document !== 'object' || document === null || ArrayBuffer.isView(document)) return document;
  return Object.fromEntries(visibleDocument(Object.entries(document)));
}

/** Returns an equivalent JSON document with the characters in `hidden` escaped. */
export function visibleJson(json: string): string {
  return json.replace(leftByJson, unicodeEscape);
}

function escaped(character: string): string {
  const code = character.charCodeAt(0);
  return code < 0x100 ? `\\x${code.toString(16).padStart(2, '0')}` : unicodeEscape(character);
}

function unicodeEscape(character: string): string {
  return `\\u${character.charCodeAt(0).toString(16).padStart(4, '0')}`;
}
