/** The user of Weir that a person at the provider is: found, made at first sign-in, and kept as the provider describes it. */
import { createHash, randomUUID } from 'node:crypto';
import type { Actor } from '../../audit/actor.ts';
import { type AuditRecord, record } from '../../audit/record.ts';
import type { Database } from '../../db/pool.ts';
import {
  findHostedUser,
  type HostedUser,
  type HostedUserRow,
  insertHostedUser,
  lockUserByEmail,
  updateHostedUser,
} from '../../db/queries/hosted-users.ts';
import type { UserRow } from '../../db/queries/people.ts';
import type { Exchange } from '../../http/exchange.ts';
import { actorOf } from '../person.ts';
import type { Identity } from './claims.ts';

type Query = Database['query'];

type Admission =
  | { kind: 'admitted'; user: UserRow; actor: Actor; happened: AuditRecord | null }
  | { kind: 'refused'; code: 'role_missing' | 'user_disabled' | 'email_of_another_user' };

/** Two others may come first: one with this subject, one with this email. */
const TRIES_MAX = 3;

/**
 * Finds or makes the user, in the transaction of `query`. The caller records what `happened`, last in its transaction. A local
 * user of the same email becomes the provider's only when the provider vouches for the address.
 */
export async function admit(query: Query, identity: Identity, exchange: Exchange): Promise<Admission> {
  if (identity.role === null) return { kind: 'refused', code: 'role_missing' };
  const { issuer, subject, role } = identity;
  for (let tries = 0; tries < TRIES_MAX; tries++) {
    // In this order: once we hold the row of this email, whoever was about to make it this subject's has done so.
    const sameEmail = identity.email === null ? undefined : await lockUserByEmail(query, identity.email);
    const known = await findHostedUser(query, issuer, subject);
    const before = known ?? sameEmail;
    if (before?.disabled) return { kind: 'refused', code: 'user_disabled' };
    if (before !== undefined && known === undefined && (before.hosted || !identity.emailVerified))
      return { kind: 'refused', code: 'email_of_another_user' };
    const free = sameEmail === undefined || sameEmail.id === before?.id;
    const user: HostedUser = {
      id: before?.id ?? randomUUID(),
      email: (free ? identity.email : null) ?? before?.email ?? standInEmail(identity),
      name: identity.name || before?.name || '',
      role,
      issuer,
      subject,
    };
    if (before !== undefined) {
      if (changes(before, user) || !before.hosted) await updateHostedUser(query, user);
      return admitted(user, before, exchange);
    }
    if (await insertHostedUser(query, user)) return admitted(user, null, exchange);
  }
  return { kind: 'refused', code: 'email_of_another_user' };
}

/** Records what an admission changed, where it changed anything. */
export async function recordAdmission(query: Query, { actor, happened }: Extract<Admission, { kind: 'admitted' }>) {
  if (happened !== null) await record(query, actor, happened);
}

function changes(before: HostedUserRow, after: HostedUser): boolean {
  return before.email !== after.email || before.name !== after.name || before.role !== after.role;
}

function admitted(user: HostedUser, before: HostedUserRow | null, exchange: Exchange): Admission {
  const actor = actorOf({ ...user, via: { kind: 'jwt' } }, exchange);
  return { kind: 'admitted', user, actor, happened: happened(user, before) };
}

function happened(user: HostedUser, before: HostedUserRow | null): AuditRecord | null {
  const target = { kind: 'user', id: user.id, name: user.email };
  if (before === null) return { action: 'user.create', target, after: user };
  const { disabled: _, hosted, ...was } = before;
  if (!hosted) return { action: 'user.link', target, before: was, after: user };
  return changes(before, user) ? { action: 'user.update', target, before: was, after: user } : null;
}

/** For people of whom the provider says no address: one that is nobody's (RFC 2606), and always the same. */
function standInEmail({ issuer, subject }: Identity): string {
  const hash = createHash('sha256').update(`${issuer}\n${subject}`).digest('hex');
  return `${hash.slice(0, 32)}@oidc.invalid`;
}
