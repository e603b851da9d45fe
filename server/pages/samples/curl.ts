/** Requests as shell commands. */

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

/** The header that a command signs in, of the default scheme; null: the webhook has no secret. */
export function commandSignatureHeader(webhook: {
  has_secret: boolean;
  signature_header: string | null;
}): string | null {
  return webhook.has_secret ? (webhook.signature_header ?? 'X-Hub-Signature-256') : null;
}

interface SignedCurl {
  url: string;
  /** UTF-8 text. */
  body: Buffer;
  contentType: string;
  /** Null when the webhook has no secret. */
  signatureHeader: string | null;
}

/** A command that sends a body, signed with $WEIR_SECRET when the webhook has a secret. Null when no shell can represent the body. */
export function signedCurl({ url, body, contentType, signatureHeader }: SignedCurl): string | null {
  if (body.includes(0)) return null;
  const lines = [`BODY=${shellWord(body.toString('utf8'))}`];
  if (signatureHeader !== null)
    lines.push(`SIGNATURE=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$WEIR_SECRET" -r | cut -d' ' -f1)`);
  lines.push(`curl ${shellWord(url)} \\`);
  if (signatureHeader !== null) lines.push(`  -H ${shellWord(`${signatureHeader}: sha256=`)}"$SIGNATURE" \\`);
  // --data-binary would read a file when the body begins with @.
  lines.push(`  -H ${shellWord(`Content-Type: ${contentType}`)} --data-raw "$BODY"`);
  return lines.join('\n');
}
