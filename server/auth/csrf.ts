/**
 * Changes that a cookie vouches for must come from a page that may make them: the browser says where the request is from
 * (Origin, Sec-Fetch-Site), and the page knows a token that other sites cannot read.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../http/exchange.ts';

/** Where API clients put the token; forms have it in the field `csrf`. */
export const CSRF_HEADER = 'x-csrf-token';

export class Csrf {
  readonly #key: Buffer;
  readonly #origins: ReadonlySet<string>;

  /** @param origins whose pages may make changes: the pages' own and those of CORS_ORIGINS. */
  constructor(key: Buffer, origins: readonly string[]) {
    this.#key = key;
    this.#origins = new Set(origins);
  }

  /** The token of a session; it ends with it. Before sign-in, of any text that a cookie holds. */
  token(sessionId: string): string {
    return createHmac('sha256', this.#key).update(sessionId).digest('base64url');
  }

  /** @param given what the request carries as its token. */
  allows(exchange: Exchange, sessionId: string, given: string | undefined): boolean {
    return this.fromOwnPage(exchange) && given !== undefined && sameText(given, this.token(sessionId));
  }

  /** False when the browser says that the request is another site's. Clients that are no browsers say nothing. */
  fromOwnPage(exchange: Exchange): boolean {
    const origin = exchange.header('origin');
    if (origin !== undefined) return this.#origins.has(origin);
    const site = exchange.header('sec-fetch-site');
    return site === undefined || site === 'same-origin' || site === 'none';
  }
}

function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
