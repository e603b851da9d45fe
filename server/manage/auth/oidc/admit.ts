/**
 * Maps a person at the identity provider to a Weir user: finds the user, creates it at first sign-in, and updates it from the
 * claims.
 */
import { createHash, randomUUID } from 'node:crypto';
import type { Exchange } from '../../../base/http/exchange.ts';
import type { Role } from '../../../model/users.ts';
import type { Actor, AuditRecord } from '../../../store/audit/record.ts';
import type { Query } from '../../../store/connect/pool.ts';
import {
  endRole,
  findHostedUser,
  type HostedUser,
  type HostedUserRow,
  holdRole,
  insertHostedUser,
  lockUserByEmail,
  updateHostedUser,
} from '../../../store/queries/users/hosted.ts';
import { deleteSessionsOfUser } from '../../../store/queries/users/sessions.ts';
import type { ActiveUser } from '../../../store/queries/users/users.ts';
import { personActor } from '../person.ts';
import type { Identity } from './identify.ts';

/**
 * `roleBefore` is null for a new user. `role_ended`: the provider assigned a role before and assigns none now; the user's
 * sessions and tokens have been ended.
 */
type Admission =
  | { kind: 'admitted'; user: ActiveUser; roleBefore: Role | null; actor: Actor; change: AuditRecord | null }
  | { kind: 'role_ended'; user: ActiveUser; roleBefore: Role; actor: Actor; change: AuditRecord }
  | { kind: 'refused'; code: 'role_missing' | 'user_disabled' | 'email_of_another_user' };

/** An insert can conflict twice: with a user of the same subject and with a user of the same email. */
const TRIES_MAX = 3;

/**
 * Finds or creates the user, in the transaction of `query`. The caller records `change` last in that transaction. A local user
 * with the same email is linked to the provider only when the provider has verified the address.
 * @param roleDays OIDC_ROLE_DAYS
 */
export async function admitIdentity(
  query: Query,
  identity: Identity,
  exchange: Exchange,
  roleDays: number,
): Promise<Admission> {
  if (identity.role === null) return endRoleOrRefuse(query, identity, exchange);
  const { issuer, subject, role } = identity;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    // Lock the email row first. A concurrent transaction that links this row to the same subject has then committed before the
    // subject is looked up.
    const sameEmail = identity.email === null ? undefined : await lockUserByEmail(query, identity.email);
    const known = await findHostedUser(query, issuer, subject);
    const before = known ?? sameEmail;
    if (before?.disabled) return { kind: 'refused', code: 'user_disabled' };
    if (before !== undefined && known === undefined && (before.hosted || !identity.emailVerified))
      return { kind: 'refused', code: 'email_of_another_user' };
    const free = sameEmail === undefined || sameEmail.id === before?.id;
    const user: HostedUser = {
      id: before?.id ?? randomUUID(),
      email: (free ? identity.email : null) ?? before?.email ?? placeholderEmail(identity),
      name: identity.name || before?.name || '',
      role,
      issuer,
      subject,
    };
    if (before !== undefined) {
      if (changes(before, user) || !before.hosted) await updateHostedUser(query, user);
    } else if (!(await insertHostedUser(query, user))) continue;
    await holdRole(query, user.id, roleDays);
    return admitted(user, before ?? null, exchange);
  }
  return { kind: 'refused', code: 'email_of_another_user' };
}

/** Refuses a person without a role. Existing sessions and the role of the same person end immediately. */
async function endRoleOrRefuse(query: Query, { issuer, subject }: Identity, exchange: Exchange): Promise<Admission> {
  const known = await findHostedUser(query, issuer, subject);
  if (known === undefined || known.disabled || !(await endRole(query, known.id)))
    return { kind: 'refused', code: 'role_missing' };
  const sessions = await deleteSessionsOfUser(query, known.id, null);
  const target = { kind: 'user', id: known.id, name: known.email };
  return {
    kind: 'role_ended',
    user: { ...known, role: 'viewer' },
    roleBefore: known.role,
    actor: personActor({ ...known, via: { kind: 'jwt' } }, exchange),
    change: { action: 'user.role_ended', target, before: { role: known.role, sessions }, after: { role: null } },
  };
}

function changes(before: HostedUserRow, after: HostedUser): boolean {
  return before.email !== after.email || before.name !== after.name || before.role !== after.role;
}

function admitted(user: HostedUser, before: HostedUserRow | null, exchange: Exchange): Admission {
  const actor = personActor({ ...user, via: { kind: 'jwt' } }, exchange);
  return { kind: 'admitted', user, roleBefore: before?.role ?? null, actor, change: changeOf(user, before) };
}

function changeOf(user: HostedUser, before: HostedUserRow | null): AuditRecord | null {
  const target = { kind: 'user', id: user.id, name: user.email };
  if (before === null) return { action: 'user.create', target, after: user };
  const { disabled: _, hosted, ...previous } = before;
  if (!hosted) return { action: 'user.link', target, before: previous, after: user };
  return changes(before, user) ? { action: 'user.update', target, before: previous, after: user } : null;
}

/**
 * Placeholder address for people without an email claim. The domain is reserved (RFC 2606), and the address is the same at every
 * sign-in.
 */
function placeholderEmail({ issuer, subject }: Identity): string {
  const hash = createHash('sha256').update(`${issuer}\n${subject}`).digest('hex');
  return `${hash.slice(0, 32)}@oidc.invalid`;
}
