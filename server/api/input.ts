/** Shared input schemas and checks. */
import { z } from 'zod';
import { check } from '../http/issues.ts';

/** Invalid input that only the database can detect, e.g. an unknown id. Rolls back the transaction. */
export class InputError extends Error {
  readonly path: readonly PropertyKey[];
  constructor(path: readonly PropertyKey[], detail: string) {
    super(detail);
    this.path = path;
  }
}

const EMAIL_WANTED = 'Give an email address, such as ada@example.org.';

/** Validates the input of a command like the API does. Throws InputError that names every invalid field. */
export function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = check(schema, value);
  if ('data' in result) return result.data;
  const { issues, omitted } = result;
  const sentences = issues.map(({ path, detail }) => `${path.map(String).join('.')}: ${detail}`);
  if (omitted > 0) sentences.push(`And ${omitted} more.`);
  throw new InputError(issues[0]!.path, sentences.join(' '));
}

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

/** A name. */
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

const header = 'Give the name of a header: letters, digits and hyphens, at most 100.';

/** A header field name, an RFC 9110 token, in lower case. */
export const fieldName = z
  .string({ error: header })
  .trim()
  .toLowerCase()
  .regex(/^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/, header);

/** Id of a configured resource. */
export const recordId = z.guid().toLowerCase();

/** Ids without duplicates, in any order. */
export const recordIds = z
  .array(recordId)
  .max(IDS_MAX)
  .overwrite((ids) => [...new Set(ids)]);
