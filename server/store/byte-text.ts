/**
 * Bytes of a column as text. Connections send text, and by default Postgres sends bytes in hex, two characters a byte.
 *
 * A body of 1 KiB of JSON, us of CPU of Postgres and of this process until it is a string, 200 rows a statement, lowest of 7 rounds:
 *
 *     hex                          6.4   4.1
 *     base64                       2.8   3.5
 *     escaped                      3.1   1.4    a byte above 127 takes four characters
 *     Latin-1 (chosen)             3.7   1.3    of that 0.7 to look for NUL, which text cannot contain
 *     UTF-8                        1.8   1.0    fails for bytes that are not UTF-8
 */
import { isUtf8 } from 'node:buffer';

/** Bytes as `asText` returned them: a letter for the form, then a character a byte (`l`) or base64 (`b`). */
export type ByteText = string;

/** SQL: the bytes as ByteText. Base64 if they contain NUL, or if the encoding of the database may not have all characters of Latin-1. */
export const asText = (bytes: string) => `
  case when position('\\x00'::bytea in ${bytes}) = 0 and getdatabaseencoding() = 'UTF8'
    then 'l' || convert_from(${bytes}, 'LATIN1') else 'b' || encode(${bytes}, 'base64') end`;

export function bytesOf(text: ByteText): Buffer {
  return Buffer.from(text.slice(1), text.startsWith('l') ? 'latin1' : 'base64');
}

/** The bytes as text, if they are UTF-8 without NUL: such text is legal JSON, but few programs handle NUL. Null: they are not. */
export function utf8Of(text: ByteText): string | null {
  if (!text.startsWith('l')) {
    const bytes = bytesOf(text);
    return isUtf8(bytes) && !bytes.includes(0) ? bytes.toString('utf8') : null;
  }
  const latin1 = text.slice(1);
  // ASCII needs no copy: each character takes one byte.
  if (Buffer.byteLength(latin1) === latin1.length) return latin1;
  const bytes = Buffer.from(latin1, 'latin1');
  return isUtf8(bytes) ? bytes.toString('utf8') : null;
}
