/** Password rules (NIST SP 800-63B-4, section 3.1.1.2): minimum length and no common passwords, but no required character classes. */
import { commonPasswords } from './common.ts';

const PASSWORD_CHARACTERS_MIN = 12;
const PASSWORD_CHARACTERS_MAX = 200;

/** Normalizes a password, so that text that looks the same is equal on every keyboard. Every hash is computed from this form. */
export function normalPassword(password: string): string {
  return password.normalize('NFKC');
}

/** Returns a sentence that says why a new password is not acceptable, or null if it is. */
export function passwordProblem(password: string, email: string): string | null {
  const normal = normalPassword(password);
  const characters = [...normal].length;
  if (characters < PASSWORD_CHARACTERS_MIN || characters > PASSWORD_CHARACTERS_MAX)
    return `Use ${PASSWORD_CHARACTERS_MIN} to ${PASSWORD_CHARACTERS_MAX} characters.`;
  // Encoding would turn every lone surrogate into the same replacement character.
  if (/\p{Cs}/u.test(normal)) return 'A password cannot contain half of a surrogate pair.';
  const readings = readingsOf(normal.toLowerCase());
  if (readings.some((reading) => namesOf(email).includes(reading)))
    return 'The password must not be the email address or a part of it.';
  if (isRow(normal) || readings.some((reading) => commonPasswords.has(reading)))
    return 'This password is easy to guess: a common word or a row of keys, with or without digits. Use several unrelated words.';
  return null;
}

/** Letters that digits and symbols replace in words. */
const lookAlikes: Readonly<Record<string, string>> = {
  0: 'o',
  1: 'i',
  3: 'e',
  4: 'a',
  5: 's',
  7: 't',
  $: 's',
  '@': 'a',
  '!': 'i',
};

/**
 * Returns the forms of a password that an attacker would try: the text; its letters only; and the word without digits and symbols at
 * its ends and with look-alikes replaced by letters. Repeated text is reduced to one copy.
 */
function readingsOf(lower: string): string[] {
  const between = lower.replace(/^\P{L}+|\P{L}+$/gu, '').replace(/[013457$@!]/g, (sign) => lookAlikes[sign]!);
  return [lower, lower.replace(/\P{L}+/gu, ''), between].map((reading) => reading.replace(/^(.+?)\1+$/u, '$1'));
}

/** Shorter names are ignored: they match the letters of many passwords by chance. */
const NAME_CHARACTERS_MIN = 3;

/** Returns the guessable names: the parts of the email address, and `weir`. */
function namesOf(email: string): string[] {
  const lower = email.toLowerCase();
  const [local = '', domain = ''] = lower.split('@');
  const parts = [lower, local, domain, domain.replace(/\.[^.]*$/, ''), 'weir'];
  return parts
    .flatMap((part) => [part, part.replace(/\P{L}+/gu, '')])
    .filter(({ length }) => length >= NAME_CHARACTERS_MIN);
}

/** True for a repeated piece of up to 4 characters, or consecutive characters in ascending or descending order. */
function isRow(text: string): boolean {
  const codes = [...text].map((character) => character.codePointAt(0)!);
  const steps = new Set(codes.slice(1).map((code, i) => code - codes[i]!));
  return /^(.{1,4}?)\1+$/u.test(text) || (steps.size === 1 && Math.abs([...steps][0]!) <= 1);
}
