/** Content codings (RFC 9110, section 8.4.1) for pages and assets. */
import { promisify } from 'node:util';
import { brotliCompress, constants, gzip } from 'node:zlib';
import type { Exchange } from './exchange.ts';

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

/** A text that is sent many times: compressed once in each coding, when it is first asked for in it. A failed compression is tried again. */
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

/** Null: send the text uncompressed. */
export async function compress(text: string, exchange: Exchange): Promise<{ coding: Coding; bytes: Buffer } | null> {
  const coding = text.length < COMPRESSED_BYTES_MIN ? null : acceptedCoding(exchange);
  return coding === null ? null : { coding, bytes: await encode(text, coding) };
}
