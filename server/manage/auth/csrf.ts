/**
 * CSRF protection for changes authenticated by a cookie. Two checks: the browser reports an allowed origin (Origin,
 * Sec-Fetch-Site), and the request carries a token that other sites cannot read.
 */
import { createHmac, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';

/** Header in which API clients send the token; forms send it in the field `csrf`. */
export const CSRF_HEADER = 'x-csrf-token';

export class Csrf {
  readonly #key: Buffer;
  readonly #origins: ReadonlySet<string>;

  /** @param origins allowed to make changes: the origin of the pages and those of CORS_ORIGINS */
  constructor(key: Buffer, origins: readonly string[]) {
    this.#key = key;
    this.#origins = new Set(origins);
  }

  /** Returns the token of a session; it is valid as long as the session. Before sign-in, pass any text that a cookie holds. */
  token(sessionId: string): string {
    return createHmac('sha256', this.#key).update(sessionId).digest('base64url');
  }

  /** Whether the request comes from an allowed origin and carries the token of the session. @param given the token in the request */
  allows(exchange: Exchange, sessionId: string, given: string | undefined): boolean {
    return this.fromOwnPage(exchange) && given !== undefined && sameText(given, this.token(sessionId));
  }

  /**
   * False when the browser reports that the request comes from another site. Clients other than browsers send neither header and
   * pass.
   */
  fromOwnPage(exchange: Exchange): boolean {
    const origin = exchange.header('origin');
    if (origin !== undefined) return this.#origins.has(origin);
    const site = exchange.header('sec-fetch-site');
    return site === undefined || site === 'same-origin' || site === 'none';
  }
}

/** Whether two texts are equal, compared in constant time. */
export function sameText(one: string, other: string): boolean {
  const [a, b] = [Buffer.from(one), Buffer.from(other)];
  return a.length === b.length && timingSafeEqual(a, b);
}
