/** Request bodies that are read whole and parsed: JSON, checked by a zod schema, or the fields of a form. */

import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import type { ProblemCode } from '../errors.ts';
import type { BodyReader } from './body.ts';
import type { Exchange } from './exchange.ts';
import { check, jsonPointer, problemMembers } from './issues.ts';
import { jsonFault } from './json-text.ts';

const BODY_BYTES_MAX = 1_048_576;
/** Of a body that anyone may send: sign-in, set-up and agent sessions. */
export const OPEN_BODY_BYTES_MAX = 16_384;
/** Objects and arrays inside each other; nothing of ours needs more, and deeper ones only cost stack. */
const DEPTH_MAX = 32;
/** Values of one document; our longest list has 1,000. A schema takes 6 ms for 10,000 unknown members, and 380 ms for 200,000. */
const VALUES_MAX = 10_000;
/** Fields of one form: an id for each checkbox. 500,000 fields take 110 ms. */
const FORM_FIELDS_MAX = 2_000;
const RETRY_SECONDS = 1;

/** How reading one may be answered. */
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

  /** Starts to read; make it before the handler gives up its turn. */
  constructor(exchange: Exchange, capBytes = BODY_BYTES_MAX) {
    this.#exchange = exchange;
    this.#capBytes = capBytes;
    this.#reading = exchange.readBody(capBytes);
  }

  /** The checked value; undefined when there is none, and then the exchange is answered. An empty body reads as `{}`. */
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

  /** The fields of an `application/x-www-form-urlencoded` body; undefined when there is none, and then the exchange is answered. */
  async form(): Promise<URLSearchParams | undefined> {
    const bytes = await this.#whole();
    if (bytes === undefined) return undefined;
    if (countUpTo(FORM_FIELDS_MAX, bytes) < FORM_FIELDS_MAX) return new URLSearchParams(bytes.toString('utf8'));
    return void this.#exchange.problem('invalid_request', `The form has more than ${FORM_FIELDS_MAX} fields.`);
  }

  /** For a handler that answers without looking at the body. */
  release(): void {
    this.#reading.release();
  }

  get #tooLarge(): string {
    return `The request body exceeds ${this.#capBytes / 1024} KiB.`;
  }

  /** A copy of the body, which is released; undefined when it did not come whole, and then the exchange is answered. */
  async #whole(): Promise<Buffer | undefined> {
    try {
      const received = await this.#reading.outcome;
      if (received.kind === 'aborted') return undefined;
      if (received.kind === 'too_large') return void this.#exchange.problem('body_too_large', this.#tooLarge);
      if (received.kind !== 'complete') return void this.#exchange.problemLater(received.kind, RETRY_SECONDS);
      // Decoders refuse shared memory, and the slab is wanted back.
      return Buffer.from(received.bytes);
    } finally {
      this.#reading.release();
    }
  }
}

/** `fault`: what keeps it from being JSON, for people. */
function parseJson(own: Buffer): { value: unknown } | { fault: string } {
  if (own.length === 0) return { value: {} };
  const excess = excessOf(own);
  if (excess !== null) return { fault: excess };
  // A body that is right, as most are, is read once; only for a wrong one is it looked up where.
  try {
    if (isUtf8(own)) return { value: JSON.parse(own.toString('utf8')) };
  } catch {}
  return { fault: jsonFault(own)! };
}

/** What is too much, found without building a value: nothing recursive ever sees what is too deep, and no schema what is too long. */
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
      if (++depth > DEPTH_MAX) return `nothing may stand in more than ${DEPTH_MAX} objects and arrays`;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--;
    else if (byte === COMMA && ++values > VALUES_MAX) return `it may hold no more than ${VALUES_MAX} values`;
  }
  return null;
}

/** Ampersands of a form, at most `max`. */
function countUpTo(max: number, form: Buffer): number {
  let count = 0;
  for (let at = form.indexOf(AMPERSAND); at >= 0 && count < max; at = form.indexOf(AMPERSAND, at + 1)) count++;
  return count;
}

const [QUOTE, BACKSLASH, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT, COMMA] = Buffer.from('"\\[]{},');
const AMPERSAND = 0x26;
