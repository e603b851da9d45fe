/** Views of a stored body: formatted JSON, text, or hex. */
import { isUtf8 } from 'node:buffer';
import { jsonFault } from '../http/json-text.ts';

type BodyView = 'pretty' | 'raw' | 'hex';

/** A page shows at most this much; the whole body can be downloaded. */
const SHOWN_BYTES_MAX = 65_536;
/** Hex takes more than four characters for each byte. */
const HEX_BYTES_MAX = 8_192;

interface ShownBody {
  view: BodyView;
  /** Views available for this body, the most readable first. */
  views: BodyView[];
  text: string;
  /** Null when the whole body is shown. */
  shownBytes: number | null;
}

/** @param wanted the view in the URL. When it is null or not available, the most readable view is used. */
export function showBody(body: Buffer, wanted: string | null): ShownBody {
  const pretty = prettyOf(body);
  const text = textOf(body);
  const views: BodyView[] = [
    ...(pretty === null ? [] : ['pretty' as const]),
    ...(text === null ? [] : ['raw' as const]),
    'hex',
  ];
  const view = views.find((one) => one === wanted) ?? views[0]!;
  if (view === 'pretty') return { view, views, text: pretty!, shownBytes: null };
  if (view === 'raw') return { view, views, text: text!.toString('utf8'), shownBytes: partly(text!, body) };
  const part = body.subarray(0, HEX_BYTES_MAX);
  return { view, views, text: hexDump(part), shownBytes: partly(part, body) };
}

function prettyOf(body: Buffer): string | null {
  return body.length > SHOWN_BYTES_MAX || body.length === 0 ? null : prettyJson(body);
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

const INDENT = '  ';
/** Matches JSON tokens only; white space between tokens is skipped. */
const token = /"(?:[^"\\]|\\.)*"|[{}[\],:]|[^\s{}[\],:"]+/gs;

/**
 * Formats JSON with one member or element a line; null when the bytes are not JSON text. Only white space changes: JSON.parse and
 * JSON.stringify would change long numbers and drop repeated names.
 */
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
