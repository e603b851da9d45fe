/** Fields shared by the schemas of resources: members of answers with their descriptions, and inputs with their limits. */
import { z } from 'zod';
import { EVENT_TYPE_CHARACTERS_MAX } from './signatures/event-type.ts';
import { HEADER_NAME, HEADER_WANTED } from './signatures/sources.ts';

/** Ids and times for the examples in the OpenAPI document. The ids of event and delivery encode received_at. */
export const example = {
  webhook_id: '01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a',
  agent_id: '01a1ffb5-9c41-7d52-a1c3-5b7e20d84f16',
  event_id: '01a1ffb6-1f30-7b8e-9d54-2c6a91e07b33',
  delivery_id: '01a1ffb6-1f30-7c22-8a0b-7d15f3c2e948',
  received_at: '2026-11-21T20:04:48.048Z',
  leased_until: '2026-11-21T20:05:48.298Z',
} as const;

/** @param thing e.g. `webhook`. */
export const idOf = (thing: string) => z.guid().describe(`id of the ${thing}`);

/** ISO 8601 in UTC. @param what e.g. `when it was created`. */
export const timeOf = (what: string) => z.iso.datetime().describe(what);

/** @param what a description that also says what null means */
export const timeOrNull = (what: string) => z.iso.datetime().nullable().describe(what);

/** @param what a description that also says what null means */
export const textOrNull = (what: string) => z.string().nullable().describe(what);

export const whole = z.number().int().min(0);

/** A whole number from `min` to `max`. */
export const between = (min: number, max: number) => z.int().min(min).max(max);

/** @param thing e.g. `agent`. */
export const nameOf = (thing: string) => z.string().describe(`name of the ${thing}`);

export const createdAt = timeOf('when it was created');
export const updatedAt = timeOf('when it was last changed');
export const receivedAt = timeOf('when Weir received it, to the millisecond');

export const sourceIp = z.string().describe('address of the sender, as determined from trusted proxies');
export const bodyBytes = z.number().describe('size of the body in bytes');
export const contentType = textOrNull('Content-Type of the request; null: the request had none');
export const eventType = textOrNull(
  'type of the event, read as event_type_from of the webhook says; null: the request had none',
).meta({ maxLength: EVENT_TYPE_CHARACTERS_MAX });
export const email = z.string().describe('email address, in lower case');

const EMAIL_WANTED = 'Give an email address, such as ada@example.org.';

/** Control characters, including NUL, which Postgres cannot store, and unpaired surrogates, which are not characters. */
const unprintable = /\p{Cc}|\p{Cs}/u;
const unprintableButLines = /[^\P{Cc}\n\t]|\p{Cs}/u;

const IDS_MAX = 1_000;

/** One line of text, trimmed. Lengths are UTF-16 units after trimming. */
export function text(charactersMin: number, charactersMax: number) {
  const allowed = `Give ${charactersMin} to ${charactersMax} characters.`;
  return z
    .string({ error: allowed })
    .trim()
    .min(charactersMin, allowed)
    .max(charactersMax, allowed)
    .refine((value) => !unprintable.test(value), 'Control characters, such as line ends and NUL, are not allowed.');
}

export const nameText = text(1, 200);
/** A name or an empty string. */
export const optionalNameText = text(0, 200);

/** Multi-line text, trimmed, with line feeds as line ends. */
export function prose(charactersMax: number) {
  const allowed = `Give at most ${charactersMax} characters.`;
  return z
    .string({ error: allowed })
    .overwrite((value) => value.replace(/\r\n?/g, '\n').trim())
    .max(charactersMax, allowed)
    .refine(
      (value) => !unprintableButLines.test(value),
      'Control characters other than line ends and tabs are not allowed.',
    );
}

/** An email address, in lower case: addresses that differ only in case are the same. */
export const emailText = z
  .string({ error: EMAIL_WANTED })
  .trim()
  .max(254, EMAIL_WANTED)
  .toLowerCase()
  .pipe(z.email(EMAIL_WANTED));

/** A password as entered. A new password must also pass passwordProblem, which needs the email. */
export const enteredPassword = z.string({ error: 'Give a password.' }).max(1_000, 'Give at most 1000 characters.');

/** A secret as given, without trimming. */
export function secretText(charactersMax: number) {
  const allowed = `Give 1 to ${charactersMax} characters.`;
  return z
    .string({ error: allowed })
    .min(1, allowed)
    .max(charactersMax, allowed)
    .refine((value) => !/\p{Cs}/u.test(value), 'An unpaired surrogate is not a character.');
}

/** Name of a header of a request, in lower case. */
export const fieldName = z.string({ error: HEADER_WANTED }).trim().toLowerCase().regex(HEADER_NAME, HEADER_WANTED);

/** Id of a configured resource. */
export const recordId = z.guid().toLowerCase();

/** Id that an administrator gives a new resource, instead of a random one. */
export const givenId = z
  .uuidv4('Give a UUID of version 4.')
  .toLowerCase()
  .optional()
  .describe(
    'id of the new resource, a UUID of version 4; absent: random. A deleted one with this id is restored. For administrators',
  );

/** Ids without duplicates, in any order. */
export const recordIds = z
  .array(recordId)
  .max(IDS_MAX)
  .overwrite((ids) => [...new Set(ids)]);

const hasZone = /(?:Z|[+-]\d\d:?\d\d)$/i;
/** The range of years with four digits in ISO 8601, which is what Postgres reads. */
const YEAR_1_MS = Date.parse('0001-01-01T00:00:00Z');
const YEAR_10000_MS = Date.parse('+010000-01-01T00:00:00Z');

/** ISO 8601, UTC without a zone; to the millisecond, like the times that Weir returns. */
export const instant = z.iso
  .datetime({ offset: true, local: true, error: 'Give a time, such as 2026-01-31T12:00:00Z.' })
  .transform((text) => Date.parse(hasZone.test(text) ? text : `${text}Z`))
  .refine((ms) => ms >= YEAR_1_MS && ms < YEAR_10000_MS, 'Give a time from year 1 to 9999.')
  .transform((ms) => new Date(ms).toISOString());
