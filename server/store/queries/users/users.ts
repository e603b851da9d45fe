/** Users: management, passwords, and the current roles of authenticated people. */
import type { z } from 'zod';
import { lesserRole, type Role, roles, userSchema } from '../../../model/users.ts';
import { advisoryLocks, takeLock } from '../../advisory-locks.ts';
import type { Database, Queries, Query } from '../../connect/pool.ts';
import { arrayOf, selectList } from '../../sql.ts';

/** An active user, with the fields that a request needs. */
export interface ActiveUser {
  id: string;
  email: string;
  name: string;
  role: Role;
}

/** Columns of ActiveUser, of `users u`. */
export const userColumns = 'u.id, u.email, u.name, u.role';

/** A user as administrators see it, without the password hash. */
export type UserRecord = z.output<typeof userSchema>;

const record = selectList(userSchema, 'u', {
  disabled: 'u.disabled_at is not null',
  has_password: 'u.password_hash is not null',
  hosted: 'u.subject is not null',
});

/** Lists users by email, starting after `after`. */
export function listUsers(
  { query }: Queries,
  { contains, role }: { contains: string | null; role: Role | null },
  after: string | null,
  rowsMax: number,
): Promise<UserRecord[]> {
  return query<UserRecord>({
    text: `
      select ${record}
      from users u
      where ($1::text is null or strpos(lower(u.email), lower($1)) > 0 or strpos(lower(u.name), lower($1)) > 0)
        and ($2::text is null or u.role = $2)
        and ($3::text is null or lower(u.email) > lower($3))
      order by lower(u.email)
      limit $4`,
    values: [contains, role, after, rowsMax],
  });
}

/** Finds a user by id or by email, whose case does not matter. */
export async function findUser(
  { query }: Queries,
  key: { id: string } | { email: string },
): Promise<UserRecord | undefined> {
  const [column, value] = 'id' in key ? ['u.id', key.id] : ['lower(u.email)', key.email.toLowerCase()];
  const [row] = await query<UserRecord>({
    text: `select ${record} from users u where ${column} = $1`,
    values: [value],
  });
  return row;
}

/** Inserts a user. Returns false when the email is taken. */
export async function insertUser(
  query: Query,
  { id, email, name, role, passwordHash }: ActiveUser & { passwordHash: string | null },
): Promise<boolean> {
  const rows = await query({
    text: `insert into users (id, email, name, role, password_hash) values ($1, $2, $3, $4, $5)
           on conflict ((lower(email))) do nothing returning 1`,
    values: [id, email, name, role, passwordHash],
  });
  return rows.length > 0;
}

/**
 * Updates a user; undefined and null fields stay unchanged. Setting a password clears role_until (Weir then
 * manages the role) and the invitation. Ends grants as endGrantsBeyond does.
 */
export async function changeUser(
  query: Query,
  id: string,
  changes: {
    name?: string | undefined;
    role?: Role | undefined;
    disabled?: boolean | undefined;
    passwordHash?: string | null;
  },
): Promise<void> {
  const { name = null, role = null, disabled = null, passwordHash = null } = changes;
  await query({
    text: `update users set
             name = coalesce($2, name), role = coalesce($3, role), password_hash = coalesce($4, password_hash),
             role_until = case when $4::text is null then role_until end,
             invitation_hash = case when $4::text is null then invitation_hash end,
             invited_until = case when $4::text is null then invited_until end,
             disabled_at = case $5::boolean when true then coalesce(disabled_at, now()) when false then null else disabled_at end,
             updated_at = now()
           where id = $1`,
    values: [id, name, role, passwordHash, disabled],
  });
  if (role !== null || disabled === true) await endGrantsBeyond(query, id);
}

/** SQL expression: the position of a role among the roles. */
export function roleRank(role: string): string {
  return `array_position('{${roles}}', ${role})`;
}

/** Revokes the OAuth grants of a user who is disabled, or whose role is lower than that of the grant. */
export async function endGrantsBeyond(query: Query, id: string): Promise<void> {
  await query({
    text: `update api_tokens t set revoked_at = now() from users u
           where t.user_id = $1 and u.id = t.user_id and t.revoked_at is null and exists (select from oauth_grants where token_id = t.id)
             and (u.disabled_at is not null or ${roleRank('u.role')} < ${roleRank('t.role')})`,
    values: [id],
  });
}

/** Deletes a user. */
export async function deleteUser(query: Query, id: string): Promise<void> {
  await query({ text: 'delete from users where id = $1', values: [id] });
}

/** Counts active administrators, and locks their set against changes until the transaction ends. */
export async function lockAdministrators(query: Query): Promise<number> {
  await takeLock(query, advisoryLocks.administrators);
  return countAdministrators({ query });
}

/** Counts active administrators. */
export async function countAdministrators({ query }: Queries): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `select count(*)::int as count from users where role = 'administrator' and disabled_at is null`,
  });
  return row!.count;
}

/** Finds an active user with a password, by email or id. */
export async function findPasswordUser(
  { query }: Queries,
  key: { id: string } | { email: string },
): Promise<(ActiveUser & { passwordHash: string }) | undefined> {
  const [column, value] = 'id' in key ? ['id', key.id] : ['lower(email)', key.email.toLowerCase()];
  const [row] = await query<ActiveUser & { passwordHash: string }>({
    text: `select id, email, name, role, password_hash as "passwordHash" from users
           where ${column} = $1 and disabled_at is null and password_hash is not null`,
    values: [value],
  });
  return row;
}

/**
 * Confirms, until the transaction ends, that a user whose password was just verified is still active and still has that password, and
 * replaces its hash. Returns false when either has changed.
 */
export async function confirmPassword(
  query: Query,
  id: string,
  verifiedHash: string,
  newHash: string,
): Promise<boolean> {
  const rows = await query({
    text: `update users set password_hash = $3
           where id = $1 and password_hash = $2 and disabled_at is null returning 1`,
    values: [id, verifiedHash, newHash],
  });
  return rows.length > 0;
}

/** An authenticated person and the means of authentication; see Person. */
interface Recognized {
  id: string;
  /** `local`, a command on this machine, is not a user and has no current role. */
  via:
    | { kind: 'session'; sessionId: string }
    | { kind: 'token'; tokenId: string }
    | { kind: 'jwt' }
    | { kind: 'local' };
}

interface Row {
  kind: Recognized['via']['kind'];
  id: string;
  role: Role;
  token_role: Role | null;
}

/**
 * Looks up all people in one query. The returned function gives the current role of a person; undefined when the session, token or user is
 * not active any more.
 * @param idleSeconds idle time after which a session ends.
 */
export async function readCurrentRoles(
  database: Database,
  people: readonly Recognized[],
  idleSeconds: number,
): Promise<(person: Recognized) => Role | undefined> {
  const idsOf = (kind: Row['kind']) => arrayOf(new Set(people.filter(({ via }) => via.kind === kind).map(keyOf)));
  // Same conditions as findSessionUsers and findTokenUsers.
  const rows = await database.query<Row>({
    name: 'current-roles',
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
    values: [idsOf('session'), idsOf('token'), idsOf('jwt'), idleSeconds],
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
  if (via.kind === 'jwt' || via.kind === 'local') return id;
  return via.kind === 'session' ? via.sessionId : via.tokenId;
}
