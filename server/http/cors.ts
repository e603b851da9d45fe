/** CORS of the API, exactly by CORS_ORIGINS (Fetch standard, section 3.3). */
import type { Exchange } from './exchange.ts';

const ALLOWED_METHODS = 'GET, HEAD, POST, PATCH, DELETE';
/** By name: with credentials a star is no wildcard, and authorization is never under one. */
const ALLOWED_HEADERS =
  'authorization, content-type, if-match, if-none-match, idempotency-key, last-event-id, x-csrf-token, x-request-id';
/** What scripts of other origins may read of an answer, beside what the standard allows always. */
const EXPOSED_HEADERS =
  'allow, content-disposition, etag, idempotent-replayed, location, ratelimit, ratelimit-policy, retry-after, www-authenticate, x-request-id, x-weir-content-type';
/** Seconds for which a browser need not ask again; Chromium keeps it no longer. */
const PREFLIGHT_SECONDS = 7200;

export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Lets the page that asks read the answer, whatever it is, when its origin is one of ours. */
  allow(exchange: Exchange): void {
    const origin = exchange.header('origin');
    // Also where it is not allowed: a cache must not give one origin's answer to another.
    if (this.#origins.size > 0) exchange.setHeader('vary', 'origin');
    if (origin === undefined || !this.#origins.has(origin)) return;
    exchange.setHeader('access-control-allow-origin', origin);
    exchange.setHeader('access-control-allow-credentials', 'true');
    if (exchange.method !== 'OPTIONS') exchange.setHeader('access-control-expose-headers', EXPOSED_HEADERS);
  }

  /** Answers OPTIONS, also where there is nothing: else a page could not read the 404. Without the fields a browser refuses. */
  preflight(exchange: Exchange): void {
    if (this.#origins.has(exchange.header('origin') ?? '')) {
      exchange.setHeader('access-control-allow-methods', ALLOWED_METHODS);
      exchange.setHeader('access-control-allow-headers', ALLOWED_HEADERS);
      exchange.setHeader('access-control-max-age', String(PREFLIGHT_SECONDS));
    }
    exchange.answer(204, 'text/plain', '');
  }
}
