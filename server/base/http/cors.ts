/** Header fields of answers under /api/ and of /mcp, and CORS: allows exactly the origins in CORS_ORIGINS (Fetch standard, section 3.3). */
import { CLIENT_FIELD } from '../net/releases.ts';
import type { Exchange } from './exchange.ts';

const ALLOWED_METHODS = 'GET, HEAD, POST, PUT, PATCH, DELETE';
/** Listed by name: `*` is not a wildcard for requests with credentials, and never covers authorization. */
const ALLOWED_HEADERS =
  'authorization, content-type, if-match, if-none-match, idempotency-key, last-event-id, mcp-method, mcp-name, mcp-protocol-version, x-csrf-token, x-request-id';
/** Answer fields that scripts of other origins may read, in addition to those that the standard always allows. */
const EXPOSED_HEADERS =
  'allow, content-disposition, etag, idempotent-replayed, location, ratelimit, ratelimit-policy, retry-after, www-authenticate, x-request-id, x-weir-content-type';
/** Seconds for which a browser caches a preflight. Chromium's maximum. */
const PREFLIGHT_SECONDS = 7200;

export class Cors {
  readonly #origins: ReadonlySet<string>;

  constructor(origins: readonly string[]) {
    this.#origins = new Set(origins);
  }

  /** Lets the requesting page read the answer, including errors, if its origin is in CORS_ORIGINS. */
  allow(exchange: Exchange): void {
    const origin = exchange.header('origin');
    // Set even if the origin is not allowed: a cache must not serve one origin's answer to another.
    if (this.#origins.size > 0) exchange.setHeader('vary', 'origin');
    if (origin === undefined || !this.#origins.has(origin)) return;
    exchange.setHeader('access-control-allow-origin', origin);
    exchange.setHeader('access-control-allow-credentials', 'true');
    if (exchange.method !== 'OPTIONS') exchange.setHeader('access-control-expose-headers', EXPOSED_HEADERS);
  }

  /** Whether the request comes from a page of CORS_ORIGINS. */
  isAllowed(exchange: Exchange): boolean {
    return this.#origins.has(exchange.header('origin') ?? '');
  }

  /** Answers OPTIONS for every path: otherwise a page could not read a 404. Without the fields, the browser blocks the request. */
  preflight(exchange: Exchange): void {
    if (this.isAllowed(exchange)) {
      exchange.setHeader('access-control-allow-methods', ALLOWED_METHODS);
      exchange.setHeader('access-control-allow-headers', ALLOWED_HEADERS);
      exchange.setHeader('access-control-max-age', String(PREFLIGHT_SECONDS));
    }
    exchange.answer(204, 'text/plain', '');
  }
}

/**
 * A browser that displays the JSON runs and frames nothing, and pages of other sites cannot embed it (`cors` decides on CORS requests).
 * Together with the fields of every answer, these complete OWASP's list for APIs.
 */
const API_FIELDS: readonly (readonly [string, string])[] = [
  ['content-security-policy', "default-src 'none'; frame-ancestors 'none'"],
  ['cross-origin-resource-policy', 'same-origin'],
];

/** Whether programs call this path, and not people with a browser. */
export function isApiPath(path: string): boolean {
  if (path.startsWith('/api/') || path === '/mcp' || path.startsWith('/.well-known/oauth-')) return true;
  return path.startsWith('/oauth/') && path !== '/oauth/authorize';
}

/**
 * Returns a function that sets the fields of an answer of the API, including errors. Call that function before the exchange is answered.
 * @param clientPath path of the client package
 */
export function createApiFields(cors: Cors, clientPath: string): (exchange: Exchange) => void {
  const fields = [...API_FIELDS, [CLIENT_FIELD, clientPath]] as const;
  return (exchange) => {
    if (!isApiPath(exchange.path)) return;
    for (const [name, value] of fields) exchange.setHeader(name, value);
    cors.allow(exchange);
  };
}
