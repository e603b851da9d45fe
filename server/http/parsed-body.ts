/** Request bodies that are read whole and parsed: JSON, checked by a zod schema, or the fields of a form. */

import { isUtf8 } from 'node:buffer';
import type { z } from 'zod';
import { check, jsonPointer } from '../core/issues.ts';
import { jsonFault } from '../core/json-text.ts';
import type { ProblemCode } from '../errors.ts';
import type { BodyReader } from './body.ts';
import type { Exchange } from './exchange.ts';

const BODY_BYTES_MAX = 1_048_576;
/** Objects and arrays inside each other; nothing of ours needs more, and deeper ones only cost stack. */
const DEPTH_MAX = 32;
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
  readonly #reading: BodyReader;

  /** Starts to read; make it before the handler gives up its turn. */
  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    this.#reading = exchange.readBody(BODY_BYTES_MAX);
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
    const errors = result.issues.map(({ path, detail }) => ({ pointer: jsonPointer(path), detail }));
    return void exchange.problem('invalid_request', undefined, { errors });
  }

  /** The fields of an `application/x-www-form-urlencoded` body; undefined when there is none, and then the exchange is answered. */
  async form(): Promise<URLSearchParams | undefined> {
    const bytes = await this.#whole();
    return bytes && new URLSearchParams(bytes.toString('utf8'));
  }

  /** For a handler that answers without looking at the body. */
  release(): void {
    this.#reading.release();
  }

  /** A copy of the body, which is released; undefined when it did not come whole, and then the exchange is answered. */
  async #whole(): Promise<Buffer | undefined> {
    try {
      const received = await this.#reading.outcome;
      if (received.kind === 'aborted') return undefined;
      if (received.kind === 'too_large') return void this.#exchange.problem('body_too_large');
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
  if (isTooDeep(own)) return { fault: `nothing may stand in more than ${DEPTH_MAX} objects and arrays` };
  // A body that is right, as most are, is read once; only for a wrong one is it looked up where.
  try {
    if (isUtf8(own)) return { value: JSON.parse(own.toString('utf8')) };
  } catch {}
  return { fault: jsonFault(own)! };
}

/** Counts brackets outside strings, so that nothing recursive ever sees what is too deep. */
function isTooDeep(json: Uint8Array): boolean {
  let depth = 0;
  let inString = false;
  for (let i = 0; i < json.length; i++) {
    const byte = json[i];
    if (inString) {
      if (byte === BACKSLASH) i++;
      else if (byte === QUOTE) inString = false;
    } else if (byte === QUOTE) inString = true;
    else if (byte === OPEN_ARRAY || byte === OPEN_OBJECT) {
      if (++depth > DEPTH_MAX) return true;
    } else if (byte === CLOSE_ARRAY || byte === CLOSE_OBJECT) depth--;
  }
  return false;
}

const [QUOTE, BACKSLASH, OPEN_ARRAY, CLOSE_ARRAY, OPEN_OBJECT, CLOSE_OBJECT] = Buffer.from('"\\[]{}');
