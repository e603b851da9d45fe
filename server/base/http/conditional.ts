/** If-None-Match and lists of entity tags (RFC 9110, sections 8.8.3 and 13.1.2). */
import type { Exchange } from './exchange.ts';

/** True if the client already has this representation (If-None-Match, weak comparison). @param tag weak or strong */
export function isKnown(exchange: Exchange, tag: string): boolean {
  const field = fieldList(exchange, 'if-none-match');
  if (field === undefined) return false;
  const opaque = opaqueOf(tag);
  return field.trim() === '*' || tagsIn(field).some((listed) => opaqueOf(listed) === opaque);
}

function opaqueOf(tag: string): string {
  return tag.replace(/^W\//, '');
}

/** The entity tags of a field value, quoted and in order (RFC 9110, section 8.8.3). */
export function tagsIn(field: string): string[] {
  return field.match(/(?:W\/)?"[\x21\x23-\x7e\x80-\uffff]*"/g) ?? [];
}

/** The value of a list field, with repeated fields joined. */
export function fieldList({ headers }: Exchange, name: string): string | undefined {
  const values = headers.filter((_, i) => i % 2 === 1 && headers[i - 1] === name);
  return values.length === 0 ? undefined : values.join(', ');
}
