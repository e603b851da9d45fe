/**
 * Bytes of a column as text. Connections send text, and by default Postgres sends bytes in hex, two characters a byte. As Latin-1 they take
 * half of the CPU (bench/NOTES.md); of that, a fifth is to look for NUL, which text cannot contain.
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
