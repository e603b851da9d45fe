/** A text that is the same for every client. It is made, hashed and compressed once, when it is first asked for. */
import { createHash } from 'node:crypto';
import { acceptedCoding, Encodings } from './compress.ts';
import { isKnown } from './conditional.ts';
import type { Exchange } from './exchange.ts';

interface Made {
  plain: Buffer;
  encodings: Encodings;
  /** Weak, because it is the same for every coding (RFC 9110, section 8.8.3.3). */
  tag: string;
}

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
