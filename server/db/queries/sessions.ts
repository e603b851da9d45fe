/** Sessions as they are opened and dropped; people.ts finds the one of a request. */
import type { Database } from '../pool.ts';

type Query = Database['query'];

export interface NewSession {
  id: string;
  userId: string;
  tokenHash: Buffer;
  /** In force for so long from now on. */
  seconds: number;
  sourceIp: string;
  userAgent: string;
}

/** Opens it, and writes that the user signed in. */
export async function insertSession(query: Query, session: NewSession): Promise<void> {
  const { id, userId, tokenHash, seconds, sourceIp, userAgent } = session;
  await query({
    text: `insert into sessions (id, user_id, token_hash, expires_at, source_ip, user_agent)
           values ($1, $2, $3, now() + make_interval(secs => $4), $5, $6)`,
    values: [id, userId, tokenHash, seconds, sourceIp, userAgent],
  });
  await query({ text: 'update users set signed_in_at = now() where id = $1', values: [userId] });
}

/** Drops the user's sessions that have expired, and all but the `keep` that were used last. */
export async function dropOldSessions(query: Query, userId: string, keep: number): Promise<void> {
  await query({
    text: `delete from sessions where user_id = $1 and (expires_at <= now() or id not in (
             select id from sessions where user_id = $1 and expires_at > now() order by last_seen_at desc, id limit $2))`,
    values: [userId, keep],
  });
}
