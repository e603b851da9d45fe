/** Sessions of browsers: a cookie of 256 random bits, of which the database keeps the hash. Local and hosted sign-in open them here. */
import { randomBytes, randomUUID } from 'node:crypto';
import type { Database } from '../db/pool.ts';
import {
  deleteSessionOf,
  dropOldSessions,
  insertSession,
  type Prolongation,
  prolongSession,
} from '../db/queries/sessions.ts';
import type { Exchange } from '../http/exchange.ts';
import { cookieName, hashSessionToken } from './people.ts';

type Query = Database['query'];

/** Sessions that a user may have at a time; one more ends the one that was used longest ago. */
export const SESSIONS_OF_USER_MAX = 100;
const USER_AGENT_CHARACTERS_MAX = 500;

export interface OpenedSession {
  id: string;
  /** What the cookie holds; never kept or logged. */
  token: string;
  /** For how long it is in force, and the cookie kept. */
  seconds: number;
}

/** Opens a session for a user who has just proved who it is. The caller records it and answers with `sessionCookie`. */
export async function openSession(
  query: Query,
  userId: string,
  exchange: Exchange,
  { seconds, authenticatedSecondsAgo }: { seconds: number; authenticatedSecondsAgo: number },
): Promise<OpenedSession> {
  const id = randomUUID();
  const token = randomBytes(32).toString('base64url');
  await dropOldSessions(query, userId, SESSIONS_OF_USER_MAX - 1);
  await insertSession(query, {
    id,
    userId,
    tokenHash: hashSessionToken(token),
    seconds,
    authenticatedSecondsAgo,
    sourceIp: exchange.client.address,
    // Printable ASCII alone: it is shown to people, and a browser sends nothing else.
    userAgent: (exchange.header('user-agent') ?? '').replace(/[^ -~]/g, '?').slice(0, USER_AGENT_CHARACTERS_MAX),
  });
  return { id, token, seconds };
}

/**
 * Lets the session that the request presents go on, so that forms which are open in the browser stay good. Null: it is another
 * user's or not in force, or there would be more than `secondsMax` from its sign-in to its end.
 */
export async function goOn(
  query: Query,
  userId: string,
  exchange: Exchange,
  publicUrl: string,
  prolongation: Prolongation,
): Promise<OpenedSession | null> {
  const token = exchange.cookie(cookieName(publicUrl));
  if (token === undefined) return null;
  const id = await prolongSession(query, userId, hashSessionToken(token), prolongation);
  return id === undefined ? null : { id, token, seconds: prolongation.seconds };
}

/** Ends the session that the request presents, whoever it is of: at a sign-in nothing of what was there before goes on. */
export async function endPresentedSession(query: Query, exchange: Exchange, publicUrl: string): Promise<void> {
  const cookie = exchange.cookie(cookieName(publicUrl));
  if (cookie !== undefined) await deleteSessionOf(query, hashSessionToken(cookie));
}

/** The field Set-Cookie that signs a browser in. Lax: a link from elsewhere finds the person signed in, a form does not. */
export function sessionCookie(publicUrl: string, { token, seconds }: OpenedSession): string {
  return setCookie(publicUrl, cookieName(publicUrl), token, seconds);
}

/** The field Set-Cookie that takes the session's cookie away. */
export function noSessionCookie(publicUrl: string): string {
  return setCookie(publicUrl, cookieName(publicUrl), '', 0);
}

/** Set-Cookie of a cookie that no script reads and no other site's form sends (RFC 6265bis). */
export function setCookie(publicUrl: string, name: string, value: string, seconds: number): string {
  const secure = publicUrl.startsWith('https:') ? '; Secure' : '';
  return `${name}=${value}; Path=/; Max-Age=${seconds}; HttpOnly; SameSite=Lax${secure}`;
}
