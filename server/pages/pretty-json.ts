/** Formats JSON by changing only white space: JSON.parse and JSON.stringify would change long numbers and drop repeated names. */
import { jsonFault } from '../http/json-text.ts';

const INDENT = '  ';
/** Matches JSON tokens only; white space between tokens is skipped. */
const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/** Formats with one member or element a line; null when the bytes are not JSON text. */
export function prettyJson(bytes: Uint8Array): string | null {
  if (jsonFault(bytes) !== null) return null;
  let out = '';
  let depth = 0;
  let before = '';
  const newLine = () => `\n${INDENT.repeat(depth)}`;
  for (const [text] of Buffer.from(bytes).toString('utf8').matchAll(token)) {
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
  return out;
}
