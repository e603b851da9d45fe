/** What a password must be: NIST SP 800-63B-4, section 3.1.1.2. Length counts, the kinds of characters do not. */

export const PASSWORD_CHARACTERS_MIN = 12;
export const PASSWORD_CHARACTERS_MAX = 200;

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
  if (normal.toLowerCase() === email.toLowerCase()) return 'The email address is no password.';
  return null;
}
