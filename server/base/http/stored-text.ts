/** Texts in a content coding (RFC 9110, section 8.4.1): of one answer, and those that are the same for every client. */
import { createHash } from 'node:crypto';
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import { isKnown } from './conditional.ts';
import type { Exchange } from './exchange.ts';

interface Made {
  plain: Buffer;
  encodings: Encodings;
  /** Weak, because it is the same for every coding (RFC 9110, section 8.8.3.3). */
  tag: string;
}

/** A text that is the same for every client. The first request makes, hashes and compresses it; later requests share the result. */
export class StoredText<Context = void> {
  readonly #contentType: string;
  readonly #make: (context: Context) => string | Promise<string>;
  #made: Promise<Made> | null = null;

  /** @param make gets what the first request passes to `answer`. If it rejects, the next request calls it again. */
  constructor(contentType: string, make: (context: Context) => string | Promise<string>) {
    this.#contentType = contentType;
    this.#make = make;
  }

  /** Answers with the text in the best coding, or with 304 if the client has it. Requests at the same time wait for one text. */
  async answer(exchange: Exchange, context: Context, status = 200): Promise<void> {
    this.#made ??= this.#start(context);
    const { plain, encodings, tag } = await this.#made;
    exchange.setHeader('vary', 'accept-encoding');
    if (status === 200) {
      exchange.cacheControl = 'no-cache';
      exchange.setHeader('etag', tag);
      if (isKnown(exchange, tag)) return exchange.answer(304, this.#contentType, '');
    }
    const coding = acceptedCoding(exchange);
    if (coding === null) return exchange.answer(status, this.#contentType, plain);
    const bytes = await encodings.in(coding);
    exchange.setHeader('content-encoding', coding);
    exchange.answer(status, this.#contentType, bytes);
  }

  async #start(context: Context): Promise<Made> {
    try {
      const plain = Buffer.from(await this.#make(context));
      const tag = `W/"${createHash('sha256').update(plain).digest('base64url').slice(0, 22)}"`;
      return { plain, encodings: new Encodings(plain), tag };
    } catch (error) {
      this.#made = null;
      throw error;
    }
  }
}

type Coding = 'br' | 'gzip';

/** Smaller texts fit into one packet uncompressed. */
const COMPRESSED_BYTES_MIN = 1_000;
/** Range 0 to 11. Levels above 5 take several times as long and save only a few percent. */
const BROTLI_QUALITY = 5;
const brotliAsync = promisify(brotliCompress);
const gzipAsync = promisify(gzip);

/** The best coding that the client accepts; null for none. */
export function acceptedCoding(exchange: Exchange): Coding | null {
  const accepted = (exchange.header('accept-encoding') ?? '').split(',').map((item) => item.trim().split(';'));
  const accepts = (coding: Coding) =>
    accepted.some(([name, quality]) => name?.trim() === coding && !/^\s*q=0(\.0*)?\s*$/.test(quality ?? ''));
  return accepts('br') ? 'br' : accepts('gzip') ? 'gzip' : null;
}

/** Compresses in libuv's thread pool, so that a large text does not delay webhooks. */
function encode(text: string | Buffer, coding: Coding, quality = BROTLI_QUALITY): Promise<Buffer> {
  const params = { [constants.BROTLI_PARAM_QUALITY]: quality };
  return coding === 'br' ? brotliAsync(text, { params }) : gzipAsync(text);
}

/** A text that is sent many times. The first request for a coding compresses it; a failed compression is tried again. */
export class Encodings {
  readonly #plain: Buffer;
  readonly #quality: number | undefined;
  readonly #encoded = new Map<Coding, Promise<Buffer>>();

  /** @param quality of Brotli, 0 to 11 */
  constructor(plain: Buffer, quality?: number) {
    this.#plain = plain;
    this.#quality = quality;
  }

  in(coding: Coding): Promise<Buffer> {
    let encoded = this.#encoded.get(coding);
    if (encoded === undefined) {
      encoded = encode(this.#plain, coding, this.#quality);
      this.#encoded.set(coding, encoded);
      encoded.catch(() => this.#encoded.delete(coding));
    }
    return encoded;
  }
}

/** Compresses a text in the best coding that the client accepts; null: send the text uncompressed. */
export async function compress(text: string, exchange: Exchange): Promise<{ coding: Coding; bytes: Buffer } | null> {
  const coding = text.length < COMPRESSED_BYTES_MIN ? null : acceptedCoding(exchange);
  return coding === null ? null : { coding, bytes: await encode(text, coding) };
}
