/** Newline-delimited JSON: one JSON text per line. Lines end with LF or CRLF; the last line may end with the body. */
import { jsonFault } from '../../base/http/json-text.ts';

interface Line<Memory extends ArrayBufferLike> {
  /** Line number from 1, empty lines included. */
  number: number;
  /** View of the body: the line without its line end. */
  bytes: Uint8Array<Memory>;
}

interface LineFault {
  line: number;
  detail: string;
}

export type LinesOutcome<Memory extends ArrayBufferLike> =
  | { kind: 'lines'; lines: Line<Memory>[] }
  /** The first FAULTS_MAX lines that are not JSON. */
  | { kind: 'faults'; faults: LineFault[] }
  | { kind: 'too_many' }
  | { kind: 'empty' };

/** Invalid lines reported in one answer. Reading stops at this number. */
export const FAULTS_MAX = 100;
/** Bytes read before a pause: 1 to 5 ms. A line is never split. */
const SLICE_BYTES = 524_288;

const LF = 0x0a;
const CR = 0x0d;

/**
 * Reads the lines of a body and checks that each is JSON. Skips empty lines. Yields where the caller may let other requests run.
 * @param linesMax maximum number of non-empty lines; with more the outcome is `too_many`.
 */
export function* readLines<Memory extends ArrayBufferLike>(
  body: Uint8Array<Memory>,
  linesMax: number,
): Generator<undefined, LinesOutcome<Memory>> {
  const lines: Line<Memory>[] = [];
  const faults: LineFault[] = [];
  // A Buffer finds a byte with memchr; a typed array over shared memory reads one byte at a time.
  const buffer = Buffer.from(body.buffer, body.byteOffset, body.length);
  let pauseAt = SLICE_BYTES;
  for (let at = 0, number = 1; at < body.length && faults.length < FAULTS_MAX; number++) {
    const end = lineEnd(buffer, at);
    const textEnd = end > at && end < body.length && body[end - 1] === CR ? end - 1 : end;
    if (textEnd > at) {
      if (lines.length + faults.length === linesMax) return { kind: 'too_many' };
      const bytes = body.subarray(at, textEnd);
      const detail = jsonFault(bytes);
      if (detail === null) lines.push({ number, bytes });
      else faults.push({ line: number, detail });
    }
    at = end + 1;
    if (at < pauseAt) continue;
    pauseAt = at + SLICE_BYTES;
    yield;
  }
  if (faults.length > 0) return { kind: 'faults', faults };
  return lines.length === 0 ? { kind: 'empty' } : { kind: 'lines', lines };
}

/** Offset of the next LF, or the length of the body. */
function lineEnd(body: Buffer, start: number): number {
  // Avoids an indexOf call for each empty line: a body may hold a million of them.
  if (body[start] === LF) return start;
  if (body[start] === CR && body[start + 1] === LF) return start + 1;
  const found = body.indexOf(LF, start);
  return found < 0 ? body.length : found;
}
