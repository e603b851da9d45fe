/** Browser sessions: a cookie of 256 random bits, of which the database stores the hash. Used by local and hosted sign-in. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import type { Query } from '../../store/connect/pool.ts';
import {
  deleteOldSessions,
  deleteSessionOf,
  extendSession,
  insertSession,
  type SessionExtension,
} from '../../store/queries/users/sessions.ts';
import { cookieName, hashSessionToken } from './people.ts';

/** Sessions per user; opening one more ends the least recently used. */
export const SESSIONS_OF_USER_MAX = 100;
const USER_AGENT_CHARACTERS_MAX = 500;

export interface OpenedSession {
  id: string;
  /** Cookie value; never stored or logged. */
  token: string;
  /** Lifetime of the session and of its cookie. */
  seconds: number;
}

/** Opens a session for a user who has just been authenticated. The caller records the sign-in and sends `sessionCookie`. */
export async function openSession(
  query: Query,
  userId: string,
  exchange: Exchange,
  { seconds, authenticatedSecondsAgo }: { seconds: number; authenticatedSecondsAgo: number },
): Promise<OpenedSession> {
  const id = randomUUID();
  const token = randomBytes(32).toString('base64url');
  await deleteOldSessions(query, userId, SESSIONS_OF_USER_MAX - 1);
  await insertSession(query, {
    id,
    userId,
    tokenHash: hashSessionToken(token),
    seconds,
    authenticatedSecondsAgo,
    sourceIp: exchange.client.address,
    // Printable ASCII only: the value is shown to people, and browsers send nothing else.
    userAgent: (exchange.header('user-agent') ?? '').replace(/[^ -~]/g, '?').slice(0, USER_AGENT_CHARACTERS_MAX),
  });
  return { id, token, seconds };
}

/**
 * Extends the session that the request presents, so that open forms in the browser stay valid. Null: the session belongs to
 * another user or has expired, or its total lifetime would exceed `secondsMax`.
 */
export async function extendPresentedSession(
  query: Query,
  userId: string,
  exchange: Exchange,
  publicUrl: string,
  extension: SessionExtension,
): Promise<OpenedSession | null> {
  const token = exchange.cookie(cookieName(publicUrl));
  if (token === undefined) return null;
  const id = await extendSession(query, userId, hashSessionToken(token), extension);
  return id === undefined ? null : { id, token, seconds: extension.seconds };
}

/** Ends the session that the request presents, whichever user it belongs to, so that it does not survive a sign-in. */
export async function endPresentedSession(query: Query, exchange: Exchange, publicUrl: string): Promise<void> {
  const cookie = exchange.cookie(cookieName(publicUrl));
  if (cookie !== undefined) await deleteSessionOf(query, hashSessionToken(cookie));
}

/**
 * Set-Cookie value that signs a browser in. SameSite=Lax: a link from another site opens Weir signed in; a form on another site
 * does not send the cookie.
 */
export function sessionCookie(publicUrl: string, { token, seconds }: OpenedSession): string {
  return setCookie(publicUrl, cookieName(publicUrl), token, seconds);
}

/** Set-Cookie value that removes the session cookie. */
export function noSessionCookie(publicUrl: string): string {
  return setCookie(publicUrl, cookieName(publicUrl), '', 0);
}

/** Set-Cookie value of a cookie that scripts cannot read and forms of other sites do not send (RFC 6265bis). */
export function setCookie(publicUrl: string, name: string, value: string, seconds: number): string {
  const secure = publicUrl.startsWith('https:') ? '; Secure' : '';
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`;
}
