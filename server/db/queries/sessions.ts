/** Sessions as they are opened and dropped; people.ts finds the one of a request. */
import type { Database } from '../pool.ts';

type Query = Database['query'];

interface NewSession {
  id: string;
  userId: string;
  tokenHash: Buffer;
  /** In force for so long from now on. */
  seconds: number;
  /** Since the user proved who it is. */
  authenticatedSecondsAgo: number;
  sourceIp: string;
  userAgent: string;
}

export interface Prolongation {
  seconds: number;
  /** From its sign-in to its end. */
  secondsMax: number;
  authenticatedSecondsAgo: number | null;
}

/** Opens it, and writes that the user signed in. */
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
 * Lets a session of this user last so long from now on; undefined when there is none in force, or it was opened too long ago.
 * @param authenticatedSecondsAgo since the user proved who it is; null: it did not by this.
 */
export async function prolongSession(
  query: Query,
  userId: string,
  tokenHash: Buffer,
  { seconds, secondsMax, authenticatedSecondsAgo }: Prolongation,
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

/** Drops the user's sessions that have expired, and all but the `keep` that were used last. */
export async function dropOldSessions(query: Query, userId: string, keep: number): Promise<void> {
  await query({
    text: `delete from sessions where user_id = $1 and (expires_at <= now() or id not in (
             select id from sessions where user_id = $1 and expires_at > now() order by last_seen_at desc, id limit $2))`,
    values: [userId, keep],
  });
}

/** A session as its user sees it. */
interface SessionRecord {
  id: string;
  created_at: string;
  last_seen_at: string;
  expires_at: string;
  address: string;
  user_agent: string;
}

/** The user's sessions in force, the one that was used last first. */
export function listSessions(
  { query }: { query: Query },
  userId: string,
  idleSeconds: number,
): Promise<SessionRecord[]> {
  return query<SessionRecord>({
    text: `select id, ${isoTime('created_at')}, ${isoTime('last_seen_at')}, ${isoTime('expires_at')},
             host(source_ip) as address, user_agent
           from sessions
           where user_id = $1 and expires_at > now() and last_seen_at > now() - make_interval(secs => $2)
           order by sessions.last_seen_at desc, id`,
    values: [userId, idleSeconds],
  });
}

const isoTime = (column: string) =>
  `to_char(${column} at time zone 'UTC', 'YYYY-MM-DD"T"HH24:MI:SS.MS"Z"') as ${column}`;

/** Ends one session; false when it has ended already. */
export async function deleteSession(query: Query, id: string): Promise<boolean> {
  return (await query({ text: 'delete from sessions where id = $1 returning 1', values: [id] })).length > 0;
}

/** Ends one session of this user; undefined: the user has none of this id. */
export async function deleteOwnSession(
  query: Query,
  userId: string,
  id: string,
): Promise<Pick<SessionRecord, 'id' | 'created_at' | 'address' | 'user_agent'> | undefined> {
  const [row] = await query<SessionRecord>({
    text: `delete from sessions where user_id = $1 and id = $2
           returning id, ${isoTime('created_at')}, host(source_ip) as address, user_agent`,
    values: [userId, id],
  });
  return row;
}

/** Ends the session with this hash of its cookie, if there is one. */
export async function deleteSessionOf(query: Query, tokenHash: Buffer): Promise<void> {
  await query({ text: 'delete from sessions where token_hash = $1', values: [tokenHash] });
}

/** Ends all sessions of a user, or all but one; returns how many. */
export async function deleteSessionsOfUser(query: Query, userId: string, but: string | null): Promise<number> {
  const rows = await query({
    text: 'delete from sessions where user_id = $1 and id is distinct from $2::uuid returning 1',
    values: [userId, but],
  });
  return rows.length;
}

/** Deletes what has ended by time; returns how many. */
export async function deleteEndedSessions({ query }: { query: Query }, idleSeconds: number): Promise<number> {
  const rows = await query({
    text: `delete from sessions
           where expires_at <= now() or last_seen_at <= now() - make_interval(secs => $1) returning 1`,
    values: [idleSeconds],
  });
  return rows.length;
}
