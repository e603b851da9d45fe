/** Checks that every kind of input shares. */
import { z } from 'zod';

/** Bad input, told to whoever gave it. */
export class InputError extends Error {}

const NAME_CHARACTERS_MAX = 200;
const EMAIL_WANTED = 'Give an email address, such as ada@example.org.';

/** Control characters, of which Postgres cannot keep NUL, and halves of a surrogate pair, which are no characters. */
const unprintable = /\p{Cc}|\p{Cs}/u;

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
export const nameText = text(1, NAME_CHARACTERS_MAX);

/** A name without surrounding space. Throws InputError. */
export function checkName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > NAME_CHARACTERS_MAX)
    throw new InputError(`the name must have 1 to ${NAME_CHARACTERS_MAX} characters`);
  if (unprintable.test(trimmed)) throw new InputError('the name must hold no control characters');
  return trimmed;
}

/** An email address, in lower case: two that differ in case are one. */
export const email = z
  .string({ error: EMAIL_WANTED })
  .trim()
  .max(254, EMAIL_WANTED)
  .toLowerCase()
  .pipe(z.email(EMAIL_WANTED));

/** A password as somebody typed it; a new one is judged by passwordProblem, which must know the email too. */
export const enteredPassword = z.string({ error: 'Give a password.' }).max(1_000, 'Give at most 1000 characters.');
