/**
 * User authentication: a session cookie, an API token `wu_…`, or in hosted mode a JWT of the identity provider. Sessions and
 * tokens are read from the database at each request, so that a sign-out or role change applies to the next request in every
 * process. Requests that wait for the database share a query, so that a flood of unknown cookies or tokens makes few.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { ProblemError, problem } from '../../base/http/problem.ts';
import { parseCredential } from '../../model/credential.ts';
import { lesserRole } from '../../model/users.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findSessionUsers, type SessionUser } from '../../store/queries/users/sessions.ts';
import { findTokenUsers, type TokenUser } from '../../store/queries/users/tokens.ts';
import type { ActiveUser } from '../../store/queries/users/users.ts';
import { SharedLookup } from '../../store/shared-lookup.ts';
import { bearer } from './agent.ts';
import type { Person } from './person.ts';

/**
 * Returns the user of a JWT that the provider signed for this API, or null for any other token. Rejects with DatabaseUnavailable,
 * and with ProblemError when the provider is unavailable or the person has no role in Weir.
 */
export type ReadJwt = (token: string, exchange: Exchange) => Promise<{ user: ActiveUser; expiresAt: Date } | null>;

interface PeopleParts {
  database: Database;
  /** Name of the session cookie, see cookieName. */
  cookie: string;
  /** Null in local mode. */
  readJwt: ReadJwt | null;
}

/**
 * On an https origin the name has the `__Host-` prefix, with which a browser accepts the cookie only from this host (RFC
 * 6265bis).
 */
export function cookieName(publicUrl: string): string {
  return publicUrl.startsWith('https:') ? '__Host-weir_session' : 'weir_session';
}

/** A session expires this long after its last request, and at the latest USER_SESSION_SECONDS after the sign-in. */
export const USER_SESSION_IDLE_SECONDS = 86_400;
export const USER_SESSION_SECONDS = 7 * 86_400;

export class People {
  readonly #parts: PeopleParts;
  /** By the hash of the cookie in hex. */
  readonly #sessions: SharedLookup<SessionUser>;
  /** By lookup id. */
  readonly #tokens: SharedLookup<TokenUser>;

  constructor(parts: PeopleParts) {
    const { database } = parts;
    this.#parts = parts;
    this.#sessions = new SharedLookup((hashes) => findSessionUsers(database, hashes, USER_SESSION_IDLE_SECONDS));
    this.#tokens = new SharedLookup((ids) => findTokenUsers(database, ids));
  }

  /**
   * Returns the person of a request, or null without valid credentials. If there is a bearer token, only the token is used.
   * Rejects with DatabaseUnavailable or ProblemError; the server turns both into responses.
   */
  async find(exchange: Exchange): Promise<Person | null> {
    if (exchange.header('authorization') === undefined) return this.#bySession(exchange.cookie(this.#parts.cookie));
    const token = bearer(exchange);
    if (token.startsWith('wu_')) return this.#byToken(token);
    if (this.#parts.readJwt === null || !token.startsWith('ey')) return null;
    const read = await this.#parts.readJwt(token, exchange);
    return read && { ...described(read.user), via: { kind: 'jwt', expiresAt: read.expiresAt } };
  }

  /** Whether the request presents anything that `find` looks up. */
  hasCredentials(exchange: Exchange): boolean {
    return exchange.header('authorization') !== undefined || exchange.cookie(this.#parts.cookie) !== undefined;
  }

  async #bySession(cookie: string | undefined): Promise<Person | null> {
    if (cookie === undefined || !SESSION_SHAPE.test(cookie)) return null;
    const row = await this.#sessions.find(hashSessionToken(cookie).toString('hex'));
    if (row === undefined) return null;
    const { sessionId, secondsLeft, authenticatedSecondsAgo } = row;
    return { ...described(row), via: { kind: 'session', sessionId, secondsLeft, authenticatedSecondsAgo } };
  }

  async #byToken(text: string): Promise<Person | null> {
    const credential = parseCredential('wu', text);
    const row = credential && (await this.#tokens.find(credential.lookupId));
    if (!row || !timingSafeEqual(row.secretHash, credential.secretHash)) return null;
    if (row.suspended) throw new ProblemError(problem('token_suspended'));
    return {
      ...described(row),
      role: lesserRole(row.role, row.tokenRole),
      via: { kind: 'token', tokenId: row.tokenId },
    };
  }
}

/** 32 random bytes in base64url. */
const SESSION_SHAPE = /^[A-Za-z0-9_-]{43}$/;

/** Hash of a session cookie, as the database stores it. The cookie is random, so no salt or stretching is needed. */
export function hashSessionToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function described({ id, email, name, role }: ActiveUser): ActiveUser {
  return { id, email, name, role };
}
