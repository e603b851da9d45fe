/** What a password must be: NIST SP 800-63B-4, section 3.1.1.2. Length counts, and that nobody guesses it; kinds of characters do not. */
import { commonPasswords } from './common.ts';

const PASSWORD_CHARACTERS_MIN = 12;
const PASSWORD_CHARACTERS_MAX = 200;

/** One text for what looks the same, however a keyboard composes it. Every hash is made of this form. */
export function normalPassword(password: string): string {
  return password.normalize('NFKC');
}

/** What is wrong with a new password, in a sentence; null: nothing. */
export function passwordProblem(password: string, email: string): string | null {
  const normal = normalPassword(password);
  const characters = [...normal].length;
  if (characters < PASSWORD_CHARACTERS_MIN || characters > PASSWORD_CHARACTERS_MAX)
    return `Give ${PASSWORD_CHARACTERS_MIN} to ${PASSWORD_CHARACTERS_MAX} characters.`;
  // Encoded they would all become the same replacement character.
  if (/\p{Cs}/u.test(normal)) return 'Half of a surrogate pair is no character.';
  const readings = readingsOf(normal.toLowerCase());
  if (readings.some((reading) => namesOf(email).includes(reading)))
    return 'The email address, or a part of it, is no password.';
  if (isRow(normal) || readings.some((reading) => commonPasswords.has(reading)))
    return 'This is among the first that are tried: a common word or a row of keys, whatever digits go with it. Take some words that nobody expects together.';
  return null;
}

/** What stands for digits and signs in words. */
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
 * What a guesser would try to get at a password: the text itself, its letters alone, and the word between the digits and signs at
 * its ends, with letters for what looks like them; of a text that is repeated, once.
 */
function readingsOf(lower: string): string[] {
  const between = lower.replace(/^\P{L}+|\P{L}+$/gu, '').replace(/[013457$@!]/g, (sign) => lookAlikes[sign]!);
  return [lower, lower.replace(/\P{L}+/gu, ''), between].map((reading) => reading.replace(/^(.+?)\1+$/u, '$1'));
}

/** Shorter ones are the letters of many a password by chance. */
const NAME_CHARACTERS_MIN = 3;

/** The names in an email address that are no secret, and ours. */
function namesOf(email: string): string[] {
  const lower = email.toLowerCase();
  const [local = '', domain = ''] = lower.split('@');
  const parts = [lower, local, domain, domain.replace(/\.[^.]*$/, ''), 'weir'];
  return parts
    .flatMap((part) => [part, part.replace(/\P{L}+/gu, '')])
    .filter(({ length }) => length >= NAME_CHARACTERS_MIN);
}

/** One short piece over and over, or characters one after the other, up or down. */
function isRow(text: string): boolean {
  const codes = [...text].map((character) => character.codePointAt(0)!);
  const steps = new Set(codes.slice(1).map((code, i) => code - codes[i]!));
  return /^(.{1,4}?)\1+$/u.test(text) || (steps.size === 1 && Math.abs([...steps][0]!) <= 1);
}
