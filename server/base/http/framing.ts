/**
 * Request body framing (RFC 9112, section 6). These checks are needed because uWebSockets.js 3.0.6 reads only the first of repeated
 * fields, treats every Transfer-Encoding as chunked and an empty value as absent, and calls the handler before it checks the digits.
 */
import type { ProblemCode } from '../../model/errors.ts';

export const Framing = { none: 0, length: 1, chunked: 2, invalid: 3 } as const;
export type Framing = (typeof Framing)[keyof typeof Framing];

/** uWebSockets.js parses at most 18 digits. */
const CONTENT_LENGTH = /^\d{1,18}$/;

/** Returns the framing after one more header field. Call it for each field, starting with `none`. The length rules out most names. */
export function framingWith(before: Framing, name: string, value: string): Framing {
  switch (name.length) {
    case 14:
      if (name !== 'content-length') return before;
      return before === Framing.none && CONTENT_LENGTH.test(value) ? Framing.length : Framing.invalid;
    case 17:
      if (name !== 'transfer-encoding') return before;
      return before === Framing.none && value.toLowerCase() === 'chunked' ? Framing.chunked : Framing.invalid;
    default:
      return before;
  }
}

/** Returns the problem to answer for this framing, or null if the request is acceptable. */
export function framingProblem(framing: Framing, acceptsChunked: boolean): ProblemCode | null {
  if (framing === Framing.invalid) return 'length_invalid';
  return framing === Framing.chunked && !acceptsChunked ? 'length_required' : null;
}
