/** Entity tags of JSON, and If-Match (RFC 9110, sections 8.8.3 and 13.1.1). */
import { createHash } from 'node:crypto';
import type { z } from 'zod';
import { tagsIn } from '../../base/http/conditional.ts';

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
