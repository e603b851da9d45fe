/** Invitation links of users, by the hash of their token. */
import type { Queries, Query } from '../../connect/pool.ts';
import { type ActiveUser, userColumns } from './users.ts';

const HOURS = 48;

/** Replaces the invitation of a user without a password. Returns false when the user has one. */
export async function setInvitation(query: Query, userId: string, hash: Buffer): Promise<boolean> {
  const rows = await query({
    text: `update users set invitation_hash = $2, invited_until = now() + interval '${HOURS} hours', updated_at = now()
           where id = $1 and password_hash is null returning 1`,
    values: [userId, hash],
  });
  return rows.length > 0;
}

/** Revokes the invitation of a user, if there is one. */
export async function clearInvitation(query: Query, userId: string): Promise<void> {
  await query({
    text: `update users set invitation_hash = null, invited_until = null, updated_at = now()
           where id = $1 and invitation_hash is not null`,
    values: [userId],
  });
}

const isValid =
  'u.invitation_hash = $1 and u.invited_until > now() and u.disabled_at is null and u.password_hash is null';

/** The user whom a valid invitation is for; undefined: it has expired, was used or revoked, or the user is disabled. */
export async function findInvited({ query }: Queries, hash: Buffer): Promise<ActiveUser | undefined> {
  const [row] = await query<ActiveUser>({
    text: `select ${userColumns} from users u where ${isValid}`,
    values: [hash],
  });
  return row;
}

/** Sets the password and uses the invitation up. Undefined as for findInvited: of two concurrent calls one succeeds. */
export async function useInvitation(query: Query, hash: Buffer, passwordHash: string): Promise<ActiveUser | undefined> {
  const [row] = await query<ActiveUser>({
    text: `update users u set password_hash = $2, invitation_hash = null, invited_until = null, role_until = null, updated_at = now()
           where ${isValid} returning ${userColumns}`,
    values: [hash, passwordHash],
  });
  return row;
}
