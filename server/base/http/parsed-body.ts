/** Reads whole request bodies and parses them: JSON, validated with a zod schema, or form fields. */
import { isUtf8 } from 'node:buffer';
import type { ProblemCode } from '../../model/errors.ts';
import { jsonText } from '../../model/signatures/json-bytes.ts';
import type { BodyOutcome, BodyReader } from './body.ts';
import type { Exchange, Unanswered } from './exchange.ts';
import { jsonFault } from './json-text.ts';
import { type Problem, problem, problemLater } from './problem.ts';

const BODY_BYTES_MAX = 1_048_576;
/** Maximum size of a body on a route without authentication: sign-in, setup and agent sessions. */
export const OPEN_BODY_BYTES_MAX = 16_384;
/** Maximum nesting of objects and arrays. The API needs no more, and deeper nesting only costs stack. */
const DEPTH_MAX = 32;
/** Maximum values in one document. The API's longest list has 1,000. A schema takes 6 ms for 10,000 unknown members, 380 ms for 200,000. */
const VALUES_MAX = 10_000;
/** Maximum fields in one form: one id per checkbox. Parsing 500,000 fields takes 110 ms. */
const FORM_FIELDS_MAX = 2_000;
const RETRY_SECONDS = 1;

export const jsonBodyProblems = [
  'invalid_json',
  'body_too_large',
  'invalid_request',
  'memory_full',
  'client_busy',
] as const satisfies readonly ProblemCode[];

/** `gone`: the client disconnected before the body was complete. */
export type Parsed<T> = { kind: 'parsed'; value: T } | Unanswered | Problem;

export class ParsedBody {
  readonly #capBytes: number;
  readonly #reading: BodyReader;
  readonly #received: Promise<BodyOutcome>;

  /** Starts reading. Create it synchronously in the handler, or the first chunks are lost. */
  constructor(exchange: Exchange, capBytes = BODY_BYTES_MAX) {
    this.#capBytes = capBytes;
    let onEnd!: () => void;
    const ended = new Promise<void>((resolve) => {
      onEnd = resolve;
    });
    this.#reading = exchange.readBody(capBytes, onEnd);
    this.#received = ended.then(() => this.#reading.outcome!);
  }

  /** Parses JSON. An empty body is read as `{}`. */
  async json(): Promise<Parsed<unknown>> {
    const whole = await this.#whole();
    return whole.kind === 'parsed' ? parseJson(whole.value) : whole;
  }

  async form(): Promise<Parsed<URLSearchParams>> {
    const whole = await this.#whole();
    if (whole.kind !== 'parsed') return whole;
    if (countUpTo(FORM_FIELDS_MAX, whole.value) >= FORM_FIELDS_MAX)
      return problem('invalid_request', `The form has more than ${FORM_FIELDS_MAX} fields.`);
    return { kind: 'parsed', value: new URLSearchParams(whole.value.toString('utf8')) };
  }

  /** Releases the body. Calling it again does nothing. */
  release(): void {
    this.#reading.release();
  }

  /** Copies the body and releases it. */
  async #whole(): Promise<Parsed<Buffer>> {
    try {
      const received = await this.#received;
      if (received.kind === 'aborted') return { kind: 'gone' };
      if (received.kind === 'too_large')
        return problem('body_too_large', `The request body exceeds ${this.#capBytes / 1024} KiB.`);
      if (received.kind !== 'complete') return problemLater(received.kind, RETRY_SECONDS);
      // Copy: decoders reject shared memory, and the slab must be released.
      return { kind: 'parsed', value: Buffer.from(received.bytes) };
    } finally {
      this.#reading.release();
    }
  }
}

function parseJson(own: Buffer): Parsed<unknown> {
  if (own.length === 0) return { kind: 'parsed', value: {} };
  const excess = excessOf(own);
  if (excess !== null) return invalidJson(excess);
  // A valid body, the common case, is parsed once. Only an invalid body is scanned for the position of the fault.
  try {
    if (isUtf8(own)) return { kind: 'parsed', value: JSON.parse(jsonText(own)) };
  } catch {}
  return invalidJson(jsonFault(own)!);
}

function invalidJson(fault: string): Problem {
  return problem('invalid_json', `The body must be JSON in UTF-8: ${fault}.`);
}

/** Checks DEPTH_MAX and VALUES_MAX without building a value, before recursive code or a schema sees the document. */
function excessOf(json: Uint8Array): string | null {
  let depth = 0;
  let values = 1;
  let inString = false;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (inString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      if (++depth > DEPTH_MAX) return `at most ${DEPTH_MAX} levels of objects and arrays are allowed`;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--;
    else if (byte === COMMA && ++values > VALUES_MAX) return `at most ${VALUES_MAX} values are allowed`;
  }
  return null;
}

function countUpTo(max: number, form: Buffer): number {
  let count = 0;
  for (let at = form.indexOf(AMPERSAND); at >= 0 && count < max; at = form.indexOf(AMPERSAND, at + 1)) count++;
  return count;
}

const [QUOTE, BACKSLASH, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT, COMMA] = Buffer.from('"\\[]{},');
const AMPERSAND = 0x26;
