/**
 * How a request says where its body ends (RFC 9112, section 6). uWebSockets.js 3.0.6 looks at the first of repeated fields, takes
 * every Transfer-Encoding for chunked and an empty value for a missing field, and calls the handler before it looks at the digits.
 */
import type { ProblemCode } from '../errors.ts';

export const Framing = { none: 0, length: 1, chunked: 2, invalid: 3 } as const;
export type Framing = (typeof Framing)[keyof typeof Framing];

/** uWebSockets.js reads no longer number. */
const CONTENT_LENGTH = /^\d{1,18}$/;

/** The framing after one more header field; call it for each, beginning with `none`. Most names are told by their length alone. */
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

/** Why a request with this framing is not served; null: it is. */
export function framingProblem(framing: Framing, acceptsChunked: boolean): ProblemCode | null {
  if (framing === Framing.invalid) return 'length_invalid';
  return framing === Framing.chunked && !acceptsChunked ? 'length_required' : null;
}
