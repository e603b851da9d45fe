/**
 * Bodies with `Content-Encoding: gzip`, which some senders compress on request. They are stored as they were sent. Code that reads
 * JSON decompresses them, within bounds, because an unauthenticated client may have sent them.
 */
import { gunzipSync } from 'node:zlib';

/** Limit on compressed bytes. In the worst case, empty blocks with their own tables, they take 17 ms, 140 ns a byte (Node 20). */
export const GZIP_BYTES_MAX = 131_072;
/** Limit on decompressed bytes, which take 2 ms. */
export const INFLATED_BYTES_MAX = 1_048_576;
/** Decompressed bytes for each compressed one. JSON has 5 to 20, a list of equal objects up to 200, and the format allows 1,032. */
const RATIO_MAX = 250;
const MAGIC = [0x1f, 0x8b];

/** Whether a body is compressed. The header is read only if the body begins like gzip. */
export function isGzip(body: Uint8Array, encodingOf: () => string | null | undefined): boolean {
  if (body[0] !== MAGIC[0] || body[1] !== MAGIC[1]) return false;
  return /^\s*(?:x-)?gzip\s*$/i.test(encodingOf() ?? '');
}

/** Limit on the decompressed bytes of a body with this size; null: it is not decompressed. */
export function inflatedMax(bytes: number): number | null {
  return bytes > GZIP_BYTES_MAX ? null : Math.min(INFLATED_BYTES_MAX, bytes * RATIO_MAX);
}

/** The body, decompressed where it is compressed and within the bounds. Blocks: for threads and pages. */
export function readableBody(body: Buffer, contentEncoding: string | null | undefined): Buffer {
  const maxOutputLength = isGzip(body, () => contentEncoding) ? inflatedMax(body.length) : null;
  if (maxOutputLength === null) return body;
  try {
    return gunzipSync(body, { maxOutputLength });
  } catch {
    return body;
  }
}
