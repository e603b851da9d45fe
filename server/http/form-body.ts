/** Request bodies of HTML forms, `application/x-www-form-urlencoded`: read and bounded as JSON bodies are. */
import type { BodyReader } from './body.ts';
import type { Exchange } from './exchange.ts';
import { BODY_BYTES_MAX, takeBody } from './json-body.ts';

export class FormBody {
  readonly #exchange: Exchange;
  readonly #reading: BodyReader;

  /** Starts to read; make it before the handler gives up its turn. */
  constructor(exchange: Exchange) {
    this.#exchange = exchange;
    this.#reading = exchange.readBody(BODY_BYTES_MAX);
  }

  /** The fields; undefined when there are none, and then the exchange is answered. Never throws for what a client sent. */
  async parse(): Promise<URLSearchParams | undefined> {
    const bytes = await takeBody(this.#exchange, this.#reading);
    return bytes && new URLSearchParams(bytes.toString('utf8'));
  }

  /** For a handler that answers without looking at the body. */
  release(): void {
    this.#reading.release();
  }
}
