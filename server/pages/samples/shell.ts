/** Words of a shell: any text, and texts with variables. */

/** Characters that terminals do not show or that control them: controls, formats such as bidirectional overrides, line separators. */
const invisible = /[\p{C}\p{Zl}\p{Zp}]/u;
/** Escaped in `$'...'`: invisible characters, quote, backslash, and `!`, which an interactive shell may expand there. */
const escapedInAnsi = /[\p{C}\p{Zl}\p{Zp}'\\!]/gu;

/**
 * Quotes any text as one word of bash, zsh or ksh; without invisible characters, of any POSIX shell. Invisible characters are escaped as
 * `$'\x1b'`: a terminal acts on some control characters of a pasted line even within quotes. A word cannot contain NUL.
 */
export function shellWord(text: string): string {
  // `=` needs quotes: zsh replaces a word `=ls` with the path of ls.
  if (/^[A-Za-z0-9_./:@%+-]+$/.test(text)) return text;
  if (!invisible.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  return `$'${text.replace(escapedInAnsi, escapedBytes)}'`;
}

/** Escapes the UTF-8 bytes of one character: `\xNN` means a byte in every locale, `\u` does not. */
function escapedBytes(character: string): string {
  if (character === '\n') return '\\n';
  return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}

/** A literal, or the value of a variable. */
export type ShellPart = { text: string } | { name: string };

/** Characters that a shell reads between double quotes as they are. */
const plain = /^[ #%&()*+,\-./0-9:;<=>?@A-Z[\]^_a-z{|}~]*$/;
/** Would be read as a part of the variable before it; zsh has `$A:h` and `$A[1]`. */
const continues = /^[\w:[]/;

/** Writes parts as one word. */
export function shellText(parts: readonly ShellPart[]): string {
  if (!parts.some((part) => 'name' in part))
    return shellWord(parts.map((part) => ('text' in part ? part.text : '')).join(''));
  if (!parts.every((part) => 'name' in part || plain.test(part.text)))
    return parts.map((part) => ('name' in part ? `"$${part.name}"` : shellWord(part.text))).join('');
  const written = parts.map((part, i) => {
    if ('text' in part) return part.text;
    const next = parts[i + 1];
    return next !== undefined && 'text' in next && continues.test(next.text) ? `\${${part.name}}` : `$${part.name}`;
  });
  return `"${written.join('')}"`;
}
