/** Requests as a line for a shell. */

/** One word of a POSIX shell, whatever is in the text. */
export function shellWord(text: string): string {
  return /^[A-Za-z0-9_./:=@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", `'\\''`)}'`;
}

interface SignedCurl {
  url: string;
  body: string;
  contentType: string;
  /** Null: the webhook has no secret. */
  signatureHeader: string | null;
}

/** Sends a body, signed with the secret in $WEIR_SECRET when the webhook has one. */
export function signedCurl({ url, body, contentType, signatureHeader }: SignedCurl): string {
  const lines = [`BODY=${shellWord(body)}`];
  if (signatureHeader !== null)
    lines.push(`SIGNATURE=$(printf %s "$BODY" | openssl dgst -sha256 -hmac "$WEIR_SECRET" -r | cut -d' ' -f1)`);
  lines.push(`curl ${shellWord(url)} \\`);
  if (signatureHeader !== null) lines.push(`  -H "${signatureHeader}: sha256=$SIGNATURE" \\`);
  lines.push(`  -H ${shellWord(`Content-Type: ${contentType}`)} --data-binary "$BODY"`);
  return lines.join('\n');
}
