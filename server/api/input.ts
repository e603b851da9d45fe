/** Schemas and checks that all kinds of input share. */
import { z } from 'zod';
import { check } from '../http/issues.ts';

/** Input that only the database could tell to be bad, e.g. an id that nothing has. Ends a transaction. */
export class InputError extends Error {
  readonly path: readonly PropertyKey[];
  constructor(path: readonly PropertyKey[], detail: string) {
    super(detail);
    this.path = path;
  }
}

const EMAIL_WANTED = 'Give an email address, such as ada@example.org.';

/** Checks what a command was given as the API checks it. Throws InputError that names every bad field. */
export function checked<T>(schema: z.ZodType<T>, value: unknown): T {
  const result = check(schema, value);
  if ('data' in result) return result.data;
  const { issues, omitted } = result;
  const sentences = issues.map(({ path, detail }) => `${path.map(String).join('.')}: ${detail}`);
  if (omitted > 0) sentences.push(`And ${omitted} more.`);
  throw new InputError(issues[0]!.path, sentences.join(' '));
}

/** Control characters, of which Postgres cannot keep NUL, and halves of a surrogate pair, which are no characters. */
const unprintable = /\p{Cc}|\p{Cs}/u;
const unprintableButLines = /[^\P{Cc}\n\t]|\p{Cs}/u;

const IDS_MAX = 1_000;

/** One line that a person typed, without surrounding space; lengths in UTF-16 units after that. */
export function text(charactersMin: number, charactersMax: number) {
  const allowed = `Give ${charactersMin} to ${charactersMax} characters.`;
  return z
    .string({ error: allowed })
    .trim()
    .min(charactersMin, allowed)
    .max(charactersMax, allowed)
    .refine((value) => !unprintable.test(value), 'Control characters, such as line ends and NUL, are not allowed.');
}

/** What people call a thing. */
export const nameText = text(1, 200);
/** The same, or empty. */
export const optionalNameText = text(0, 200);

/** Lines that a person typed, without surrounding space, joined by line feeds. */
export function prose(charactersMax: number) {
  const allowed = `Give at most ${charactersMax} characters.`;
  return z
    .string({ error: allowed })
    .overwrite((value) => value.replace(/\r\n?/g, '\n').trim())
    .max(charactersMax, allowed)
    .refine(
      (value) => !unprintableButLines.test(value),
      'Control characters besides line ends and tabs are not allowed.',
    );
}

/** An email address, in lower case: two that differ in case are one. */
export const emailText = z
  .string({ error: EMAIL_WANTED })
  .trim()
  .max(254, EMAIL_WANTED)
  .toLowerCase()
  .pipe(z.email(EMAIL_WANTED));

/** A password as somebody typed it; a new one is judged by passwordProblem, which must know the email too. */
export const enteredPassword = z.string({ error: 'Give a password.' }).max(1_000, 'Give at most 1000 characters.');

/** A secret as it was given: nothing is trimmed. */
export function secretText(charactersMax: number) {
  const allowed = `Give 1 to ${charactersMax} characters.`;
  return z
    .string({ error: allowed })
    .min(1, allowed)
    .max(charactersMax, allowed)
    .refine((value) => !/\p{Cs}/u.test(value), 'Half of a surrogate pair is no character.');
}

const header = 'Give the name of a header: letters, digits and hyphens, at most 100.';

/** The name of a header field, an RFC 9110 token, in lower case. */
export const fieldName = z
  .string({ error: header })
  .trim()
  .toLowerCase()
  .regex(/^[a-z0-9!#$%&'*+.^_`|~-]{1,100}$/, header);

/** The id of something configured. */
export const recordId = z.guid().toLowerCase();

/** Ids, each once, in any order. */
export const recordIds = z
  .array(recordId)
  .max(IDS_MAX)
  .overwrite((ids) => [...new Set(ids)]);
