/** Users of the identity provider, identified by issuer and subject. */
import type { Query } from '../../connect/pool.ts';
import { type ActiveUser, endGrantsBeyond } from './users.ts';

export interface HostedUserRow extends ActiveUser {
  disabled: boolean;
  /** Whether the user is linked to a provider. */
  hosted: boolean;
}

async function find(query: Query, where: string, values: string[]): Promise<HostedUserRow | undefined> {
  const [row] = await query<HostedUserRow>({
    text: `select id, email, name, role, disabled_at is not null as disabled, issuer is not null as hosted from users where ${where}`,
    values,
  });
  return row;
}

/** Finds the user of an account at the identity provider (claims `iss` and `sub`). */
export function findHostedUser(query: Query, issuer: string, subject: string): Promise<HostedUserRow | undefined> {
  return find(query, 'issuer = $1 and subject = $2', [issuer, subject]);
}

/** Finds a user and locks the row until the transaction ends, so that two sign-ins do not both link it. */
export function lockUserByEmail(query: Query, email: string): Promise<HostedUserRow | undefined> {
  return find(query, 'lower(email) = lower($1) for update', [email]);
}

export interface HostedUser extends ActiveUser {
  issuer: string;
  subject: string;
}

/** Inserts a user of the provider. Returns false when a user with this subject or email exists. */
export async function insertHostedUser(query: Query, user: HostedUser): Promise<boolean> {
  const { id, email, name, role, issuer, subject } = user;
  const rows = await query({
    text: `insert into users (id, email, name, role, issuer, subject) values ($1, $2, $3, $4, $5, $6)
           on conflict do nothing returning id`,
    values: [id, email, name, role, issuer, subject],
  });
  return rows.length > 0;
}

/** Records that the provider has just confirmed the user's role, which is then valid for `days`. */
export async function holdRole(query: Query, id: string, days: number): Promise<void> {
  await query({
    text: 'update users set role_until = now() + make_interval(days => $2) where id = $1',
    values: [id, days],
  });
}

/** Ends a role that the provider does not grant any more: sets the lowest role and expires it now. Returns false if both were so before. */
export async function endRole(query: Query, id: string): Promise<boolean> {
  const rows = await query({
    text: `update users set role = 'viewer', role_until = now(), updated_at = now()
           where id = $1 and (role <> 'viewer' or role_until is null or role_until > now()) returning 1`,
    values: [id],
  });
  if (rows.length > 0) await endGrantsBeyond(query, id);
  return rows.length > 0;
}

/** Updates a user from the provider's data; links a local user to the provider. */
export async function updateHostedUser(query: Query, user: HostedUser): Promise<void> {
  const { id, email, name, role, issuer, subject } = user;
  await query({
    text: `update users set email = $2, name = $3, role = $4, issuer = $5, subject = $6, updated_at = now() where id = $1`,
    values: [id, email, name, role, issuer, subject],
  });
  await endGrantsBeyond(query, id);
}
