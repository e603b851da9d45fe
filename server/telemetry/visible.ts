/** Text that others wrote, fit for a terminal. */

/** C0, DEL and C1 controls, bidirectional marks, embeddings, overrides and isolates, line and paragraph separators. */
const hidden = /[\p{Cc}\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/gu;
/** Those of them that JSON.stringify leaves as they are. */
const leftByJson = /[\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]/g;

/** Lines for people: what could steer a terminal, hide text or reorder it is shown as `\x1b` or `\u202e`; line feeds and tabs stay. */
export function visible(text: string): string {
  return text.replace(hidden, (character) =>
    character === '\n' || character === '\t' ? character : escaped(character),
  );
}

/** The same for a text that must stay in its line or column: line feeds and tabs are shown, too. */
export function visibleLine(text: string): string {
  return text.replace(hidden, escaped);
}

/** The same JSON document, with escapes for what could steer a terminal. */
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
