/** CORS of the API, exactly by CORS_ORIGINS (Fetch standard, section 3.3). */
import type { Exchange } from './exchange.ts';

const ALLOWED_METHODS = 'GET, HEAD, POST, PATCH, DELETE';
const ALLOWED_HEADERS =
  'authorization, content-type, if-match, if-none-match, idempotency-key, last-event-id, x-csrf-token, x-request-id';
/** What scripts of other origins may read of an answer. */
const EXPOSED_HEADERS = 'etag, location, ratelimit, ratelimit-policy, retry-after, x-request-id';
/** Seconds for which a browser need not ask again; Chromium keeps it no longer. */
const PREFLIGHT_SECONDS = 7200;

export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Lets the page that asks read the answer, when its origin is one of ours. */
  allow(exchange: Exchange): boolean {
    const origin = exchange.header('origin');
    // Also where it is not allowed: a cache must not give one origin's answer to another.
    if (this.#origins.size > 0) exchange.setHeader('vary', 'origin');
    if (origin === undefined || !this.#origins.has(origin)) return false;
    exchange.setHeader('access-control-allow-origin', origin);
    exchange.setHeader('access-control-allow-credentials', 'true');
    exchange.setHeader('access-control-expose-headers', EXPOSED_HEADERS);
    return true;
  }

  /** Answers OPTIONS. Without the fields of `allow` a browser refuses by itself. */
  preflight(exchange: Exchange): void {
    if (this.allow(exchange)) {
      exchange.setHeader('access-control-allow-methods', ALLOWED_METHODS);
      exchange.setHeader('access-control-allow-headers', ALLOWED_HEADERS);
      exchange.setHeader('access-control-max-age', String(PREFLIGHT_SECONDS));
    }
    exchange.answer(204, 'text/plain', '');
  }
}
