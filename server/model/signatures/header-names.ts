/** The names that a header of a request can have. */
import type { SchemeDefinition } from './definition.ts';
import { headerOf } from './sources.ts';

/** Narrower than a token of RFC 9110: on Node 20 uWebSockets.js closes a connection whose request has another character in a header name. */
export const HEADER_NAME = /^[a-z0-9-]{1,100}$/;
export const HEADER_WANTED =
  'Give the name of a header: letters, digits and hyphens, at most 100. A server on Node 20 closes the connection of a request with another character in a header name, such as an underscore.';

/** The first header of a definition that no request can have; null: none. */
export function unreachableHeader({ header, timestamp, id }: SchemeDefinition): string | null {
  const names = [header ?? null, headerOf(timestamp?.from), headerOf(id)];
  return names.find((name) => name !== null && !HEADER_NAME.test(name)) ?? null;
}
