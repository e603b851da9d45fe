/** The user that a session cookie or an API token belongs to. */

import type { Database } from '../pool.ts';
import type { Role } from '../roles.ts';

/** An active user, with the fields that a request needs. */
export interface UserRow {
  id: string;
  email: string;
  name: string;
  role: Role;
}

interface SessionUserRow extends UserRow {
  sessionId: string;
  secondsLeft: number;
  authenticatedSecondsAgo: number;
}

const user = 'u.id, u.email, u.name, u.role';

/** Finds the user of an active session: not expired, and used within `idleSeconds`. Updates the last use at most once a minute. */
export async function findSession(
  database: Database,
  tokenHash: Buffer,
  idleSeconds: number,
): Promise<SessionUserRow | undefined> {
  const [row] = await database.query<SessionUserRow & { stale: boolean }>({
    name: 'find-session',
    text: `
      select ${user}, s.id as "sessionId", extract(epoch from s.expires_at - now())::int as "secondsLeft",
        extract(epoch from now() - s.authenticated_at)::int as "authenticatedSecondsAgo",
        s.last_seen_at < now() - interval '1 minute' as stale
      from sessions s join users u on u.id = s.user_id
      where s.token_hash = $1 and s.expires_at > now() and s.last_seen_at > now() - make_interval(secs => $2)
        and u.disabled_at is null`,
    values: [tokenHash, idleSeconds],
  });
  if (row?.stale)
    await database.query({ text: 'update sessions set last_seen_at = now() where id = $1', values: [row.sessionId] });
  return row;
}

interface TokenUserRow extends UserRow {
  tokenId: string;
  tokenRole: Role;
  /** The role that the provider granted to the user has expired. */
  resting: boolean;
}

/** Finds the user of an active API token, and the role of the token. Updates the last use at most once a minute. */
export async function findToken(
  database: Database,
  lookupId: string,
): Promise<(TokenUserRow & { secretHash: Buffer }) | undefined> {
  const [row] = await database.query<TokenUserRow & { secretHash: Buffer; stale: boolean }>({
    name: 'find-token',
    text: `
      select ${user}, t.id as "tokenId", t.role as "tokenRole", t.secret_hash as "secretHash",
        coalesce(u.role_until <= now(), false) as resting,
        coalesce(t.last_used_at < now() - interval '1 minute', true) as stale
      from api_tokens t join users u on u.id = t.user_id
      where t.lookup_id = $1 and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
        and u.disabled_at is null`,
    values: [lookupId],
  });
  if (row?.stale && !row.resting)
    await database.query({ text: 'update api_tokens set last_used_at = now() where id = $1', values: [row.tokenId] });
  return row;
}
