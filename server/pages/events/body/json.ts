/** JSON for people: with one member or element a line, or as a tree of <details>, which opens and closes without a script. */
import { jsonFault } from '../../../base/http/json-text.ts';
import { jsonText } from '../../../model/signatures/json-bytes.ts';
import { counted } from '../../../model/words.ts';

const INDENT = '  ';
/** Matches JSON tokens only; white space between tokens is skipped. */
const jsonToken = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/**
 * Characters without a shape, and characters that change the direction of the text around them: with them a value can look like another one.
 * Not U+200C and U+200D, which some scripts and emoji need.
 */
const hidden = /[\u061c\u200b\u200e\u200f\u202a-\u202e\u2060-\u2064\u2066-\u2069\ufeff]/g;

/** Writes the hidden characters of JSON text as escapes (`\u202e`). Its values stay the same. */
export function escapeHidden(json: string): string {
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

/**
 * Like prettyJson.
 * @param json valid JSON
 */
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

/** Values in one tree. 1,000 take 1.4 to 3.5 ms and about 100 KB before compression. */
export const TREE_VALUES_MAX = 1_000;
/** Values in a tree after the user has asked for more: 10,000 take 20 to 40 ms. */
export const WHOLE_TREE_VALUES_MAX = 10_000;
/** Limit on the nesting of a tree. The other views show deeper values. */
export const TREE_DEPTH_MAX = 40;
const VALUE_CHARACTERS_MAX = 2_000;
/** Up to this length all levels are open at first; of a longer text, two. */
const SMALL_CHARACTERS = 4_096;

interface Tree {
  /** Escaped. Each item of a list has its name or index as data-k, from which the script makes JSON pointers. */
  html: string;
  /** False: there are more or deeper values than the tree shows. */
  complete: boolean;
  /** True when the limit on values ended the tree. */
  full: boolean;
}

/** Returns JSON as a tree. Reads no further than the last value shown. @param json valid JSON */
export function jsonTree(json: string, valuesMax = TREE_VALUES_MAX): Tree {
  const builder = new TreeBuilder(json, valuesMax);
  const html = `<ul>${builder.item(null)}</ul>`;
  return { html, complete: builder.complete, full: builder.full };
}

class TreeBuilder {
  complete = true;
  full = false;
  readonly #valuesMax: number;
  readonly #tokens: IterableIterator<RegExpExecArray>;
  readonly #openDepth: number;
  #values = 0;
  #depth = 0;

  constructor(text: string, valuesMax: number) {
    this.#valuesMax = valuesMax;
    this.#tokens = text.matchAll(jsonToken);
    this.#openDepth = text.length <= SMALL_CHARACTERS ? TREE_DEPTH_MAX : 2;
  }

  /** The value at the current token, with its name or index. */
  item(name: string | null, first = this.#next()): string {
    this.#values++;
    const key = name === null ? '' : `<span class="key">${escaped(escapeHidden(name))}</span> `;
    const data = name === null ? '' : ` data-k="${escaped(name)}"`;
    if (first !== '{' && first !== '[') return `<li${data}>${key}${scalar(first)}</li>`;
    if (this.#depth >= TREE_DEPTH_MAX) {
      this.#skip();
      return `<li${data} data-cut>${key}<span class="muted">${first}…${closing[first]}</span></li>`;
    }
    this.#depth++;
    const { html, count, whole } = first === '{' ? this.#members() : this.#elements();
    this.#depth--;
    if (count === 0 && whole) return `<li${data}>${key}<span class="muted">${first}${closing[first]}</span></li>`;
    const size = `${whole ? '' : 'at least '}${counted(count, first === '{' ? 'member' : 'element')}`;
    const open = this.#depth < this.#openDepth ? ' open' : '';
    const cut = whole ? '' : ' data-cut';
    return `<li${data}${cut}><details${open} data-t="${first}"><summary>${key}<span class="muted">${first} ${size} ${closing[first]}</span></summary><ul>${html}</ul></details></li>`;
  }

  #members() {
    return this.#list(() => {
      const name = this.#next();
      if (name === '}') return null;
      this.#next();
      return this.item(decoded(name));
    });
  }

  #elements() {
    let index = 0;
    return this.#list(() => {
      const first = this.#next();
      return first === ']' ? null : this.item(String(index++), first);
    });
  }

  /** @param one returns the next item; null: the list is empty. */
  #list(one: () => string | null): { html: string; count: number; whole: boolean } {
    let html = '';
    for (let count = 0; ; count++) {
      if (this.#values >= this.#valuesMax) {
        this.complete = false;
        this.full = true;
        return { html, count, whole: false };
      }
      const item = one();
      if (item === null) return { html, count, whole: true };
      html += item;
      // The end of the list, or the list inside it was cut: then nothing more is read.
      if (this.full) return { html, count: count + 1, whole: false };
      if (this.#next() !== ',') return { html, count: count + 1, whole: true };
    }
  }

  #skip(): void {
    this.complete = false;
    for (let open = 1; open > 0; ) {
      const text = this.#next();
      if (text === '{' || text === '[') open++;
      else if (text === '}' || text === ']') open--;
    }
  }

  /** Returns the next token. The text has been validated, so there is one wherever one is read. */
  #next(): string {
    return this.#tokens.next().value![0];
  }
}

const closing: Record<string, string> = { '{': '}', '[': ']' };

/** A string, number, true, false or null as written, so that long numbers stay exact. */
function scalar(text: string): string {
  const kind = text.startsWith('"') ? 'string' : /^[-\d]/.test(text) ? 'number' : 'word';
  if (text.length <= VALUE_CHARACTERS_MAX) return `<span class="${kind}">${escaped(escapeHidden(text))}</span>`;
  return `<span class="${kind}" data-cut>${escaped(escapeHidden(text.slice(0, VALUE_CHARACTERS_MAX)))}…</span>`;
}

function decoded(name: string): string {
  return JSON.parse(name) as string;
}

const entities: Record<string, string> = { '&': '&amp;', '<': '&lt;', '>': '&gt;', '"': '&quot;', "'": '&#39;' };

/** Escapes text for HTML. Unpaired surrogates, which a name may contain as escapes, become U+FFFD. */
function escaped(text: string): string {
  return text.replace(/[&<>"']/g, (character) => entities[character]!).replace(/\p{Cs}/gu, '\ufffd');
}
