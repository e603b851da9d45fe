/** Selects the request headers that an event stores. Credentials and signatures are never stored. */
import { defaultSignatureHeaders } from './signature.ts';

const leftOut = new Set<string>(['authorization', 'proxy-authorization', 'cookie', ...defaultSignatureHeaders]);
const secretName = /-(token|secret|key)$/;
// biome-ignore lint/suspicious/noControlCharactersInRegex: control characters are what it looks for
const controlCharacters = /[\0-\x08\x0a-\x1f\x7f]/g;

/**
 * Returns field lines `name: value`, joined by line feeds.
 * @param headers alternating names in lower case and values; order and repeated fields are kept.
 * @param signatureHeaders headers that carry the webhook's signatures, in lower case.
 * @param requestId id that Weir gave a request without one; stored first, as x-request-id. Null: none is added.
 */
export function storedHeaders(
  headers: readonly string[],
  signatureHeaders: readonly string[],
  requestId: string | null = null,
): string {
  let lines = requestId === null ? '' : `x-request-id: ${requestId}`;
  for (let i = 0; i < headers.length; i += 2) {
    const name = headers[i]!;
    if (!isStoredHeader(name) || signatureHeaders.includes(name)) continue;
    lines += `${lines === '' ? '' : '\n'}${name}: ${printable(headers[i + 1]!)}`;
  }
  return lines;
}

/** Whether events store a header of this name (in lower case), unless it carries the webhook's signature. */
export function isStoredHeader(name: string): boolean {
  let isStored = knownNames.get(name);
  if (isStored === undefined) {
    isStored = !leftOut.has(name) && !secretName.test(name);
    if (knownNames.size < KNOWN_NAMES_MAX) knownNames.set(name, isStored);
  }
  return isStored;
}

/** Results by header name: senders use few names, and one look-up costs less than the pattern. */
const knownNames = new Map<string, boolean>();
const KNOWN_NAMES_MAX = 1_000;

/** Parses stored field lines into an object. Values of a repeated field are joined with a comma (RFC 9110, section 5.3). */
export function readStoredHeaders(lines: string): Record<string, string> {
  const headers: Record<string, string> = Object.create(null);
  for (const line of lines === '' ? [] : lines.split('\n')) {
    const colon = line.indexOf(': ');
    const name = line.slice(0, colon);
    const value = line.slice(colon + 2);
    headers[name] = name in headers ? `${headers[name]}, ${value}` : value;
  }
  return headers;
}

/** Replaces control characters in a field value by spaces: they could be read as a line end, and Postgres refuses NUL in text. */
export function printable(value: string): string {
  return value.replace(controlCharacters, ' ');
}
