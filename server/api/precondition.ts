/** Conditional requests: entity tags, If-Match and If-None-Match (RFC 9110, sections 8.8.3 and 13.1). */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import type { Exchange } from '../http/exchange.ts';

/** A strong entity tag of a representation. */
export function etagOf(text: string): string {
  return `"${createHash('sha256').update(text).digest('base64url').slice(0, 22)}"`;
}

/**
 * What If-Match asks of the thing that is to be changed: true of a representation whose tag it lists, of any for `*`, and of any
 * when it was not sent. A weak tag never matches.
 * @param schema of the representation, as GET answers it.
 */
export function ifMatch(exchange: Exchange, schema: z.ZodType | undefined): (representation: unknown) => boolean {
  const field = fieldValue(exchange, 'if-match');
  if (field === undefined || schema === undefined || field.trim() === '*') return () => true;
  const listed = tagsIn(field).filter((tag) => !tag.startsWith('W/'));
  return (representation) => listed.includes(etagOf(JSON.stringify(schema.parse(representation))));
}

/** True when the client has this representation already; its tags are compared weakly. */
export function isKnown(exchange: Exchange, tag: string): boolean {
  const field = fieldValue(exchange, 'if-none-match');
  if (field === undefined) return false;
  return field.trim() === '*' || tagsIn(field).some((listed) => listed.replace(/^W\//, '') === tag);
}

function tagsIn(field: string): string[] {
  return field.match(/(?:W\/)?"[\x21\x23-\x7e\x80-\uffff]*"/g) ?? [];
}

/** A list may be sent in several fields. */
function fieldValue({ headers }: Exchange, name: string): string | undefined {
  const values = headers.filter((_, i) => i % 2 === 1 && headers[i - 1] === name);
  return values.length === 0 ? undefined : values.join(', ');
}
