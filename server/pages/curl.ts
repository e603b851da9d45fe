/** Requests as a line for a shell. */

/** Characters that no terminal shows, and those that one obeys: controls, formats such as bidirectional overrides, line separators. */
const unseen = /[\p{C}\p{Zl}\p{Zp}]/u;
/** In `$'...'`: the unseen ones, quote and backslash, and `!`, which an interactive shell may expand there. */
const escapedInAnsi = /[\p{C}\p{Zl}\p{Zp}'\\!]/gu;

/**
 * One word of bash, zsh or ksh, whatever is in the text; without unseen characters, of any POSIX shell. What is unseen is escaped
 * as `$'\x1b'`: a terminal acts on some control characters of a pasted line even within quotes. NUL cannot be in a word.
 */
export function shellWord(text: string): string {
  // Not `=`: zsh replaces a word `=ls` by the path of ls.
  if (/^[A-Za-z0-9_./:@%+-]+$/.test(text)) return text;
  if (!unseen.test(text)) return `'${text.replaceAll("'", `'\\''`)}'`;
  return `$'${text.replace(escapedInAnsi, escapedBytes)}'`;
}

/** The UTF-8 bytes of one character: `\xNN` means a byte in every locale, `\u` does not. */
function escapedBytes(character: string): string {
  if (character === '\n') return '\\n';
  return [...Buffer.from(character)].map((byte) => `\\x${byte.toString(16).padStart(2, '0')}`).join('');
}

interface SignedCurl {
  url: string;
  /** Text in UTF-8. */
  body: Buffer;
  contentType: string;
  /** Null: the webhook has no secret. */
  signatureHeader: string | null;
}

/** Sends a body, signed with the secret in $WEIR_SECRET when the webhook has one. Null: no shell can hold this body. */
export function signedCurl({ url, body, contentType, signatureHeader }: SignedCurl): string | null {
  if (body.includes(0)) return null;
  const lines = [`BODY=${shellWord(body.toString('utf8'))}`];
  if (signatureHeader !== null)
    lines.push(`SIGNATURE=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$WEIR_SECRET" -r | cut -d' ' -f1)`);
  lines.push(`curl ${shellWord(url)} \\`);
  if (signatureHeader !== null) lines.push(`  -H ${shellWord(`${signatureHeader}: sha256=`)}"$SIGNATURE" \\`);
  // --data-binary would read a file where the body begins with @.
  lines.push(`  -H ${shellWord(`Content-Type: ${contentType}`)} --data-raw "$BODY"`);
  return lines.join('\n');
}
