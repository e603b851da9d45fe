/** Checks whether people authenticated earlier still have their role. */

import type { Database } from '../pool.ts';
import { lesserRole, type Role } from '../roles.ts';

/** An authenticated person and the means of authentication; see Person. */
interface Recognized {
  id: string;
  via: { kind: 'session'; sessionId: string } | { kind: 'token'; tokenId: string } | { kind: 'jwt' };
}

interface Row {
  kind: Recognized['via']['kind'];
  id: string;
  role: Role;
  token_role: Role | null;
}

/**
 * Looks up all people in one query. The returned function gives the current role of a person; undefined when the session, token or user
 * is no longer active.
 * @param idleSeconds idle time after which a session ends.
 */
export async function findStanding(
  database: Database,
  people: readonly Recognized[],
  idleSeconds: number,
): Promise<(person: Recognized) => Role | undefined> {
  const idsOf = (kind: Row['kind']) => [...new Set(people.filter(({ via }) => via.kind === kind).map(keyOf))];
  // Same conditions as findSession and findToken.
  const rows = await database.query<Row>({
    name: 'find-standing',
    text: `
      select 'session' as kind, s.id, u.role, null as token_role
      from sessions s join users u on u.id = s.user_id
      where s.id = any ($1::uuid[]) and s.expires_at > now() and s.last_seen_at > now() - make_interval(secs => $4)
        and u.disabled_at is null
      union all
      select 'token', t.id, u.role, t.role
      from api_tokens t join users u on u.id = t.user_id
      where t.id = any ($2::uuid[]) and t.revoked_at is null and (t.expires_at is null or t.expires_at > now())
        and u.disabled_at is null and (u.role_until is null or u.role_until > now())
      union all
      select 'jwt', u.id, u.role, null
      from users u
      where u.id = any ($3::uuid[]) and u.disabled_at is null`,
    values: [`{${idsOf('session')}}`, `{${idsOf('token')}}`, `{${idsOf('jwt')}}`, idleSeconds],
  });
  const roles = new Map(
    rows.map(({ kind, id, role, token_role }) => [
      `${kind}:${id}`,
      token_role === null ? role : lesserRole(role, token_role),
    ]),
  );
  return (person) => roles.get(`${person.via.kind}:${keyOf(person)}`);
}

function keyOf({ id, via }: Recognized): string {
  if (via.kind === 'jwt') return id;
  return via.kind === 'session' ? via.sessionId : via.tokenId;
}
