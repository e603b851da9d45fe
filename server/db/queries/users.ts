/** User management. */

import { advisoryLocks } from '../advisory-locks.ts';
import type { Query } from '../pool.ts';
import type { Role } from '../roles.ts';
import type { UserRow } from './people.ts';
import { isoColumn } from './sql.ts';

/** A user as administrators see it, without the password hash. */
export interface UserRecord {
  id: string;
  email: string;
  name: string;
  role: Role;
  disabled: boolean;
  has_password: boolean;
  /** Linked to the OpenID Connect provider. */
  hosted: boolean;
  created_at: string;
  updated_at: string;
  signed_in_at: string | null;
  /** When the role granted by the provider expires; null: the role is managed in Weir. */
  role_until: string | null;
}

const shown = `
  u.id, u.email, u.name, u.role, u.disabled_at is not null as disabled, u.password_hash is not null as has_password,
  u.subject is not null as hosted, ${isoColumn('u.created_at')}, ${isoColumn('u.updated_at')}, ${isoColumn('u.signed_in_at')},
  ${isoColumn('u.role_until')}`;

export interface UserFilter {
  /** Substring of the email or the name, case-insensitive. */
  contains: string | null;
  role: Role | null;
}

/** Lists users by email, starting after `after`. */
export function listUsers(
  { query }: { query: Query },
  { contains, role }: UserFilter,
  after: string | null,
  rowsMax: number,
): Promise<UserRecord[]> {
  return query<UserRecord>({
    text: `
      select ${shown}
      from users u
      where ($1::text is null or strpos(lower(u.email), lower($1)) > 0 or strpos(lower(u.name), lower($1)) > 0)
        and ($2::text is null or u.role = $2)
        and ($3::text is null or lower(u.email) > lower($3))
      order by lower(u.email)
      limit $4`,
    values: [contains, role, after, rowsMax],
  });
}

/** @param key an id or an email. */
export async function findUser(
  { query }: { query: Query },
  key: { id: string } | { email: string },
): Promise<UserRecord | undefined> {
  const [column, value] = 'id' in key ? ['u.id', key.id] : ['lower(u.email)', key.email.toLowerCase()];
  const [row] = await query<UserRecord>({ text: `select ${shown} from users u where ${column} = $1`, values: [value] });
  return row;
}

interface NewUser {
  id: string;
  email: string;
  name: string;
  role: Role;
  passwordHash: string | null;
}

/** Returns false when the email is taken. */
export async function insertUser(query: Query, { id, email, name, role, passwordHash }: NewUser): Promise<boolean> {
  const rows = await query({
    text: `insert into users (id, email, name, role, password_hash) values ($1, $2, $3, $4, $5)
           on conflict ((lower(email))) do nothing returning 1`,
    values: [id, email, name, role, passwordHash],
  });
  return rows.length > 0;
}

/** Updates a user; undefined and null fields stay unchanged. Setting a password clears role_until: Weir then manages the role. */
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
             disabled_at = case $5::boolean when true then coalesce(disabled_at, now()) when false then null else disabled_at end,
             updated_at = now()
           where id = $1`,
    values: [id, name, role, passwordHash, disabled],
  });
}

export async function deleteUser(query: Query, id: string): Promise<void> {
  await query({ text: 'delete from users where id = $1', values: [id] });
}

/** Counts active administrators and locks that number until the transaction ends. */
export async function lockAdministrators(query: Query): Promise<number> {
  await query({ text: 'select pg_advisory_xact_lock($1)', values: [advisoryLocks.administrators] });
  return countAdministrators({ query });
}

export async function countAdministrators({ query }: { query: Query }): Promise<number> {
  const [row] = await query<{ count: number }>({
    text: `select count(*)::int as count from users where role = 'administrator' and disabled_at is null`,
  });
  return row!.count;
}

/** Finds an active user with a password, by email or id. */
export async function findPasswordUser(
  { query }: { query: Query },
  key: { id: string } | { email: string },
): Promise<(UserRow & { passwordHash: string }) | undefined> {
  const [column, value] = 'id' in key ? ['id', key.id] : ['lower(email)', key.email.toLowerCase()];
  const [row] = await query<UserRow & { passwordHash: string }>({
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
