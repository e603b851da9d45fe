/**
 * Who is a person: a session cookie, an API token `wu_…`, or in hosted mode a JWT of the provider. Sessions and tokens are read
 * from the database at each request, so that a sign-out or a change of role holds for the next one everywhere.
 */
import { createHash, timingSafeEqual } from 'node:crypto';
import type { Database } from '../db/pool.ts';
import { findSession, findToken, type UserRow } from '../db/queries/people.ts';
import { lesserRole } from '../db/roles.ts';
import type { Exchange } from '../http/exchange.ts';
import { Refused } from '../http/refused.ts';
import { bearer } from './agent.ts';
import { parseCredential } from './credential.ts';
import type { Person } from './person.ts';

/**
 * The user of a JWT that the provider signed for this API; null when it did not. Rejects with DatabaseUnavailable, and with
 * Refused where the provider is away, or the person has no role in Weir.
 */
export type ReadJwt = (token: string, exchange: Exchange) => Promise<UserRow | null>;

export interface PeopleParts {
  database: Database;
  /** Name of the session cookie, see cookieName. */
  cookie: string;
  /** Hosted mode alone. */
  readJwt: ReadJwt | null;
}

/** Cookies of an https origin carry the prefix with which a browser refuses them from anywhere else (RFC 6265bis). */
export function cookieName(publicUrl: string): string {
  return publicUrl.startsWith('https:') ? '__Host-weir_session' : 'weir_session';
}

/** A session ends so long after its last request, and in any case so long after the sign-in. */
export const SESSION_IDLE_SECONDS = 86_400;
export const SESSION_SECONDS = 7 * 86_400;

export class People {
  readonly #parts: PeopleParts;

  constructor(parts: PeopleParts) {
    this.#parts = parts;
  }

  /**
   * The person of a request; null when there is none in force. A bearer token decides alone where there is one. Rejects with
   * DatabaseUnavailable or Refused, with which the server answers.
   */
  async find(exchange: Exchange): Promise<Person | null> {
    if (exchange.header('authorization') === undefined) return this.#bySession(exchange.cookie(this.#parts.cookie));
    const token = bearer(exchange);
    if (token.startsWith('wu_')) return this.#byToken(token);
    if (this.#parts.readJwt === null || !token.startsWith('ey')) return null;
    const user = await this.#parts.readJwt(token, exchange);
    return user && { ...described(user), via: { kind: 'jwt' } };
  }

  async #bySession(cookie: string | undefined): Promise<Person | null> {
    if (cookie === undefined || !SESSION_SHAPE.test(cookie)) return null;
    const row = await findSession(this.#parts.database, hashSessionToken(cookie), SESSION_IDLE_SECONDS);
    if (row === undefined) return null;
    const { sessionId, secondsLeft, authenticatedSecondsAgo } = row;
    return { ...described(row), via: { kind: 'session', sessionId, secondsLeft, authenticatedSecondsAgo } };
  }

  async #byToken(text: string): Promise<Person | null> {
    const credential = parseCredential('wu', text);
    const row = credential && (await findToken(this.#parts.database, credential.lookupId));
    if (!row || !timingSafeEqual(row.secretHash, credential.secretHash)) return null;
    if (row.resting) throw new Refused('token_resting');
    return {
      ...described(row),
      role: lesserRole(row.role, row.tokenRole),
      via: { kind: 'token', tokenId: row.tokenId },
    };
  }
}

/** 32 random bytes in base64url. */
const SESSION_SHAPE = /^[A-Za-z0-9_-]{43}$/;

/** What the database keeps of a session cookie. The cookie is random: no salt or stretching is needed. */
export function hashSessionToken(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}

function described({ id, email, name, role }: UserRow): Omit<Person, 'via'> {
  return { id, email, name, role };
}
