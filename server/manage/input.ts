/** Checks that every kind of input shares. */

/** Bad input, told to whoever gave it. */
export class InputError extends Error {}

const NAME_CHARACTERS_MAX = 200;

/** A name without surrounding space. Throws InputError. */
export function checkName(name: string): string {
  const trimmed = name.trim();
  if (trimmed === '' || trimmed.length > NAME_CHARACTERS_MAX)
    throw new InputError(`the name must have 1 to ${NAME_CHARACTERS_MAX} characters`);
  return trimmed;
}
