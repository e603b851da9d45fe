/** Reads whole request bodies and parses them: JSON, validated with a zod schema, or form fields. */

import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import type { ProblemCode } from '../errors.ts';
import type { BodyReader } from './body.ts';
import type { Exchange } from './exchange.ts';
import { check, jsonPointer, problemMembers } from './issues.ts';
import { jsonFault } from './json-text.ts';

const BODY_BYTES_MAX = 1_048_576;
/** Maximum size of a body on a route without authentication: sign-in, set-up and agent sessions. */
export const OPEN_BODY_BYTES_MAX = 16_384;
/** Maximum nesting of objects and arrays. The API needs no more, and deeper nesting only costs stack. */
const DEPTH_MAX = 32;
/** Maximum values in one document. The API's longest list has 1,000. A schema takes 6 ms for 10,000 unknown members, 380 ms for 200,000. */
const VALUES_MAX = 10_000;
/** Maximum fields in one form: one id per checkbox. Parsing 500,000 fields takes 110 ms. */
const FORM_FIELDS_MAX = 2_000;
const RETRY_SECONDS = 1;

/** Problem codes that reading a JSON body can answer with. */
export const jsonBodyProblems = [
  'invalid_json',
  'body_too_large',
  'invalid_request',
  'memory_full',
  'client_busy',
] as const satisfies readonly ProblemCode[];

export class ParsedBody {
  readonly #exchange: Exchange;
  readonly #capBytes: number;
  readonly #reading: BodyReader;

  /** Starts reading. Create it synchronously in the handler, or the first chunks are lost. */
  constructor(exchange: Exchange, capBytes = BODY_BYTES_MAX) {
    this.#exchange = exchange;
    this.#capBytes = capBytes;
    this.#reading = exchange.readBody(capBytes);
  }

  /** Returns the validated value. On failure, answers the exchange and returns undefined. An empty body is read as `{}`. */
  async json<T>(schema: z.ZodType<T>): Promise<T | undefined> {
    const exchange = this.#exchange;
    const bytes = await this.#whole();
    if (bytes === undefined) return undefined;
    const parsed = parseJson(bytes);
    if ('fault' in parsed)
      return void exchange.problem('invalid_json', `The body must be JSON in UTF-8: ${parsed.fault}.`);
    const result = check(schema, parsed.value);
    if ('data' in result) return result.data;
    const members = problemMembers(result, ({ path, detail }) => ({ pointer: jsonPointer(path), detail }));
    return void exchange.problem('invalid_request', undefined, members);
  }

  /** Returns the fields of an `application/x-www-form-urlencoded` body. On failure, answers the exchange and returns undefined. */
  async form(): Promise<URLSearchParams | undefined> {
    const bytes = await this.#whole();
    if (bytes === undefined) return undefined;
    if (countUpTo(FORM_FIELDS_MAX, bytes) < FORM_FIELDS_MAX) return new URLSearchParams(bytes.toString('utf8'));
    return void this.#exchange.problem('invalid_request', `The form has more than ${FORM_FIELDS_MAX} fields.`);
  }

  /** Releases the body. For a handler that answers without reading it. */
  release(): void {
    this.#reading.release();
  }

  get #tooLarge(): string {
    return `The request body exceeds ${this.#capBytes / 1024} KiB.`;
  }

  /** Copies the body and releases it. If the body is incomplete, answers the exchange and returns undefined. */
  async #whole(): Promise<Buffer | undefined> {
    try {
      const received = await this.#reading.outcome;
      if (received.kind === 'aborted') return undefined;
      if (received.kind === 'too_large') return void this.#exchange.problem('body_too_large', this.#tooLarge);
      if (received.kind !== 'complete') return void this.#exchange.problemLater(received.kind, RETRY_SECONDS);
      // Copy: decoders reject shared memory, and the slab must be released.
      return Buffer.from(received.bytes);
    } finally {
      this.#reading.release();
    }
  }
}

/** `fault`: why the bytes are not valid JSON, as text for the sender. */
function parseJson(own: Buffer): { value: unknown } | { fault: string } {
  if (own.length === 0) return { value: {} };
  const excess = excessOf(own);
  if (excess !== null) return { fault: excess };
  // A valid body, the common case, is parsed once. Only an invalid body is scanned for the position of the fault.
  try {
    if (isUtf8(own)) return { value: JSON.parse(own.toString('utf8')) };
  } catch {}
  return { fault: jsonFault(own)! };
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

/** Counts the ampersands of a form, up to `max`. */
function countUpTo(max: number, form: Buffer): number {
  let count = 0;
  for (let at = form.indexOf(AMPERSAND); at >= 0 && count < max; at = form.indexOf(AMPERSAND, at + 1)) count++;
  return count;
}

const [QUOTE, BACKSLASH, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT, COMMA] = Buffer.from('"\\[]{},');
const AMPERSAND = 0x26;
