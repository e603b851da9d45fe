/** Conditional requests: entity tags, If-Match and If-None-Match (RFC 9110, sections 8.8.3 and 13.1). */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { Exchange } from '../http/exchange.ts';

/** Returns a strong entity tag of a representation. */
export function etagOf(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
}

/**
 * Returns the If-Match check of a request. It passes for a representation whose tag is listed, and for any representation with
 * `*` or without the header. A weak tag never matches.
 * @param field value of If-Match
 * @param schema schema of the GET response
 */
export function ifMatch(
  field: string | undefined,
  schema: z.ZodType | undefined,
): (representation: unknown) => boolean {
  if (field === undefined || schema === undefined || field.trim() === '*') return () => true;
  const listed = tagsIn(field).filter((tag) => !tag.startsWith('W/'));
  return (representation) => listed.includes(etagOf(JSON.stringify(schema.parse(representation))));
}

/** True if the client already has this representation (If-None-Match, weak comparison). */
export function isKnown(exchange: Exchange, tag: string): boolean {
  const field = fieldList(exchange, 'if-none-match');
  if (field === undefined) return false;
  return field.trim() === '*' || tagsIn(field).some((listed) => listed.replace(/^W\//, '') === tag);
}

function tagsIn(field: string): string[] {
  return field.match(/(?:W\/)?"[\x21\x23-\x7e\x80-\uffff]*"/g) ?? [];
}

/** Value of a field. Joins repeated fields: a list may be sent in several of them. */
export function fieldList({ headers }: Exchange, name: string): string | undefined {
  const values = headers.filter((_, i) => i % 2 === 1 && headers[i - 1] === name);
  return values.length === 0 ? undefined : values.join(', ');
}
