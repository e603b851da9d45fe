/** Who stands behind a session cookie or an API token. */

import type { Database } from '../pool.ts';
import type { Role } from '../roles.ts';

/** A user in force, as a request needs it. */
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

/** The user of a session that is in force: not expired, and used within `idleSeconds`. Its last use is written when the one before is a minute old. */
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
  /** What the provider said of its user's role holds no longer. */
  resting: boolean;
}

/** The user of an API token in force, and the token's own role. Its last use is written likewise. */
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
