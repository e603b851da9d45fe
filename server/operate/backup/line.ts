/** One line of an archived day: an event with its body. */
import { isUtf8 } from 'node:buffer';
import { z } from 'zod';
import { isTimedId, uuidv7Time } from '../../store/ids.ts';

/** The database has the same limit. */
const TYPE_MAX = 200;

/** A half of a surrogate pair would be stored as another character. */
const isUnicode = (value: string) => !/\p{Surrogate}/u.test(value);
/** What a text column can store. */
const text = z
  .string()
  .refine((value) => !value.includes('\0') && isUnicode(value), 'has a character that the database cannot store');
/** A line break would add another header. */
const headerPart = text.regex(/^[^\r\n]*$/, 'has a line break');

interface StoredBody {
  body?: string | undefined;
  body_base64?: string | undefined;
}

export const archivedEvent = z
  .object({
    id: z.guid(),
    webhook_id: z.guid(),
    received_at: z.iso.datetime(),
    source_ip: z.union([z.ipv4(), z.ipv6()]),
    event_type: text.max(TYPE_MAX).nullable(),
    content_type: text.nullable(),
    bytes: z.int().min(0),
    /** Field lines; or an object, as `weir event export` writes them. */
    headers: z.union([text, z.record(headerPart, headerPart)]),
    body: z.string().refine(isUnicode, 'has a character that is not Unicode').optional(),
    body_base64: z.string().optional(),
  })
  .refine(({ body, body_base64 }) => (body === undefined) !== (body_base64 === undefined), 'needs body or body_base64')
  .refine((event) => bodyOf(event).length === event.bytes, 'bytes is not the length of the body')
  // Node skips characters that are not of base64.
  .refine(
    ({ body_base64, bytes }) => body_base64 === undefined || body_base64.length === 4 * Math.ceil(bytes / 3),
    'body_base64 is not base64',
  )
  .refine(({ id }) => isTimedId(id), 'the id is not one of Weir')
  .refine(
    ({ id, received_at }) => !isTimedId(id) || Date.parse(uuidv7Time(id)) === Date.parse(received_at),
    'received_at is not the time in the id',
  );

export type ArchivedEvent = z.output<typeof archivedEvent>;

/** The body as text if it is UTF-8 without NUL, as in the claim response. */
export function bodyMembers(body: Buffer): { body: string } | { body_base64: string } {
  return isUtf8(body) && !body.includes(0) ? { body: body.toString() } : { body_base64: body.toString('base64') };
}

/** The bytes of a body. */
export function bodyOf({ body, body_base64 }: StoredBody): Buffer {
  return body === undefined ? Buffer.from(body_base64 ?? '', 'base64') : Buffer.from(body);
}
