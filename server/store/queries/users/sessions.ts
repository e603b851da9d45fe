/** Sessions of users. */
import type { z } from 'zod';
import { userSessionSchema } from '../../../model/users.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { selectList } from '../../sql.ts';
import { type ActiveUser, userColumns } from './users.ts';

interface NewSession {
  id: string;
  userId: string;
  tokenHash: Buffer;
  /** Lifetime from now. */
  seconds: number;
  /** Seconds since the user authenticated. */
  authenticatedSecondsAgo: number;
  sourceIp: string;
  userAgent: string;
}

export interface SessionExtension {
  seconds: number;
  /** Limit on the session's lifetime, from sign-in to expiry. */
  secondsMax: number;
  authenticatedSecondsAgo: number | null;
}

/** Creates a session and records the sign-in of the user. */
export async function insertSession(query: Query, session: NewSession): Promise<void> {
  const { id, userId, tokenHash, seconds, authenticatedSecondsAgo, sourceIp, userAgent } = session;
  await query({
    text: `insert into sessions (id, user_id, token_hash, expires_at, source_ip, user_agent, authenticated_at)
           values ($1, $2, $3, now() + make_interval(secs => $4), $5, $6, now() - make_interval(secs => $7))`,
    values: [id, userId, tokenHash, seconds, sourceIp, userAgent, authenticatedSecondsAgo],
  });
  await query({ text: 'update users set signed_in_at = now() where id = $1', values: [userId] });
}

/**
 * Extends a session of this user to expire `seconds` from now. Returns its id; undefined when no active session matches, or when it is
 * too old to be extended.
 * @param authenticatedSecondsAgo seconds since the user authenticated; null: the user did not authenticate again.
 */
export async function extendSession(
  query: Query,
  userId: string,
  tokenHash: Buffer,
  { seconds, secondsMax, authenticatedSecondsAgo }: SessionExtension,
): Promise<string | undefined> {
  const [row] = await query<{ id: string }>({
    text: `update sessions set expires_at = now() + make_interval(secs => $3),
             authenticated_at = greatest(authenticated_at, now() - make_interval(secs => $5))
           where user_id = $1 and token_hash = $2 and expires_at > now()
             and created_at > now() - make_interval(secs => $4::int - $3::int)
           returning id`,
    values: [userId, tokenHash, seconds, secondsMax, authenticatedSecondsAgo],
  });
  return row?.id;
}

/** Deletes the user's expired sessions, and all but the `keep` most recently used. */
export async function deleteOldSessions(query: Query, userId: string, keep: number): Promise<void> {
  await query({
    text: `delete from sessions where user_id = $1 and (expires_at <= now() or id not in (
             select id from sessions where user_id = $1 and expires_at > now() order by last_seen_at desc, id limit $2))`,
    values: [userId, keep],
  });
}

type SessionRecord = z.output<typeof userSessionSchema>;
const computed = { address: 'host(source_ip)' };

/** What the audit log keeps of a session that its user ended. */
const endedSchema = userSessionSchema.pick({ id: true, created_at: true, address: true, user_agent: true });

/** Lists the user's active sessions, most recently used first. */
export function listSessions({ query }: Queries, userId: string, idleSeconds: number): Promise<SessionRecord[]> {
  return query<SessionRecord>({
    text: `select ${selectList(userSessionSchema, 'sessions', computed)}
           from sessions
           where user_id = $1 and expires_at > now() and last_seen_at > now() - make_interval(secs => $2)
           order by sessions.last_seen_at desc, id`,
    values: [userId, idleSeconds],
  });
}

/** Deletes a session. Returns false when it does not exist. */
export async function deleteSession(query: Query, id: string): Promise<boolean> {
  return (await query({ text: 'delete from sessions where id = $1 returning 1', values: [id] })).length > 0;
}

/** Deletes a session of this user. Undefined: the user has no session with this id. */
export async function deleteOwnSession(
  query: Query,
  userId: string,
  id: string,
): Promise<z.output<typeof endedSchema> | undefined> {
  const [row] = await query<z.output<typeof endedSchema>>({
    text: `delete from sessions where user_id = $1 and id = $2
           returning ${selectList(endedSchema, 'sessions', computed)}`,
    values: [userId, id],
  });
  return row;
}

/** Deletes the session of a token, if it exists. */
export async function deleteSessionOf(query: Query, tokenHash: Buffer): Promise<void> {
  await query({ text: 'delete from sessions where token_hash = $1', values: [tokenHash] });
}

/** Deletes all sessions of a user, except `but` if given. Returns how many. */
export async function deleteSessionsOfUser(query: Query, userId: string, but: string | null): Promise<number> {
  const rows = await query({
    text: 'delete from sessions where user_id = $1 and id is distinct from $2::uuid returning 1',
    values: [userId, but],
  });
  return rows.length;
}

/** Deletes expired and idle sessions. Returns how many. */
export async function deleteEndedSessions({ query }: Queries, idleSeconds: number): Promise<number> {
  const rows = await query({
    text: `delete from sessions
           where expires_at <= now() or last_seen_at <= now() - make_interval(secs => $1) returning 1`,
    values: [idleSeconds],
  });
  return rows.length;
}

export interface SessionUser extends ActiveUser {
  sessionId: string;
  secondsLeft: number;
  authenticatedSecondsAgo: number;
}

/**
 * Finds the users of active sessions by the hashes of their cookies, in hex: not expired, and used within `idleSeconds`. Updates the last
 * use at most once a minute.
 */
export async function findSessionUsers(
  database: Database,
  tokenHashes: readonly string[],
  idleSeconds: number,
): Promise<Map<string, SessionUser>> {
  const rows = await database.query<SessionUser & { hash: string; stale: boolean }>({
    name: 'find-sessions',
    text: `
      select ${userColumns}, encode(s.token_hash, 'hex') as hash, s.id as "sessionId",
        extract(epoch from s.expires_at - now())::int as "secondsLeft",
        extract(epoch from now() - s.authenticated_at)::int as "authenticatedSecondsAgo",
        s.last_seen_at < now() - interval '1 minute' as stale
      from sessions s join users u on u.id = s.user_id
      where s.token_hash = any ($1::bytea[]) and s.expires_at > now()
        and s.last_seen_at > now() - make_interval(secs => $2) and u.disabled_at is null`,
    values: [tokenHashes.map((hash) => `\\x${hash}`), idleSeconds],
  });
  const stale = rows.flatMap((row) => (row.stale ? [row.sessionId] : []));
  if (stale.length > 0)
    await database.query({
      text: 'update sessions set last_seen_at = greatest(last_seen_at, now()) where id = any ($1)',
      values: [stale],
    });
  return new Map(rows.map((row) => [row.hash, row]));
}
