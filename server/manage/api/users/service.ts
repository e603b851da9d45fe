/** User management for administrators. At least one active administrator always remains. */
import { randomUUID } from 'node:crypto';
import { type Problem, problem, problemLater, type Result } from '../../../base/http/problem.ts';
import type { Role } from '../../../model/users.ts';
import type { Actor } from '../../../store/audit/actor.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database, Query } from '../../../store/connect/pool.ts';
import { clearInvitation, setInvitation } from '../../../store/queries/users/invitations.ts';
import { deleteSessionsOfUser } from '../../../store/queries/users/sessions.ts';
import { takeBack } from '../../../store/queries/users/sign-in-failures.ts';
import { revokeTokensOfUser } from '../../../store/queries/users/tokens.ts';
import {
  changeUser,
  deleteUser,
  findUser,
  insertUser,
  lockAdministrators,
  type UserRecord,
} from '../../../store/queries/users/users.ts';
import { newInvitation } from '../../auth/invitations.ts';
import { generatePassword, type Passwords } from '../../auth/password-hash.ts';
import { accountKey } from '../../auth/throttle.ts';
import { asItIs, type Expects } from '../change.ts';

export interface UserParts {
  database: Database;
  passwords: Passwords;
}

interface UserToMake {
  email: string;
  name: string;
  role: Role;
  /**
   * `generate`: a password is generated and returned once; `invite`: the user chooses it with an invitation, whose token is returned once;
   * null: the user never signs in with a password.
   */
  password: string | 'generate' | 'invite' | null;
}

/** Undefined members are unchanged. */
interface UserChanges {
  name?: string | undefined;
  role?: Role | undefined;
  disabled?: boolean | undefined;
  /** Reset by an administrator: the user's sessions end and the throttle is cleared. */
  password?: string | undefined;
  /** Revokes the user's API tokens. */
  revokeTokens?: boolean | undefined;
}

export class Users {
  readonly #parts: UserParts;
  readonly #actor: Actor;

  /** @param actor author of the changes */
  constructor(parts: UserParts, actor: Actor) {
    this.#parts = parts;
    this.#actor = actor;
  }

  /** Creates a user. A generated password and the token of an invitation are returned only here. A given password must pass passwordProblem. */
  async create(
    given: UserToMake,
  ): Promise<Result<{ user: UserRecord; generated: string | null; invitation: string | null }>> {
    const generated = given.password === 'generate' ? generatePassword() : null;
    const invitation = given.password === 'invite' ? newInvitation() : null;
    const passwordHash = await this.#hash(invitation === null ? (generated ?? given.password) : null);
    if (passwordHash === 'busy') return problemLater('sign_in_busy', 1);
    const id = randomUUID();
    return this.#parts.database.transaction(async (query) => {
      const { email, name, role } = given;
      if (!(await insertUser(query, { id, email, name, role, passwordHash }))) return problem('email_taken');
      if (invitation !== null) await setInvitation(query, id, invitation.hash);
      const user = (await findUser({ query }, { id }))!;
      await record(query, this.#actor, { action: 'user.create', target: targetOf(user), after: user });
      return { kind: 'done', value: { user, generated, invitation: invitation?.token ?? null } };
    });
  }

  /** Updates a user. A given password must pass passwordProblem. */
  async update(
    id: string,
    changes: UserChanges,
    expects: Expects<UserRecord> = asItIs,
  ): Promise<Result<{ user: UserRecord; revokedTokens: number }>> {
    const passwordHash = await this.#hash(changes.password ?? null);
    if (passwordHash === 'busy') return problemLater('sign_in_busy', 1);
    const { name, role, disabled, revokeTokens = false } = changes;
    const endsAdministrator = disabled === true || (role !== undefined && role !== 'administrator');
    return this.#parts.database.transaction(async (query) => {
      const before = await this.#before(query, id, expects, endsAdministrator);
      if ('kind' in before) return before;
      await changeUser(query, id, { name, role, disabled, passwordHash });
      if (disabled === true || passwordHash !== null) await deleteSessionsOfUser(query, id, null);
      if (passwordHash !== null) await takeBack(query, { key: accountKey(before.email) });
      const revoked = revokeTokens ? await revokeTokensOfUser(query, id) : [];
      const user = (await findUser({ query }, { id }))!;
      const action = passwordHash === null ? 'user.update' : 'user.reset_password';
      const after = { ...user, ...(revokeTokens ? { revoked_tokens: revoked } : {}) };
      await record(query, this.#actor, { action, target: targetOf(before), before, after });
      return { kind: 'done', value: { user, revokedTokens: revoked.length } };
    });
  }

  /** Creates a new invitation of a user without a password; an earlier one is no longer valid. The token is returned only here. */
  invite(id: string): Promise<Result<{ user: UserRecord; token: string }>> {
    const { token, hash } = newInvitation();
    return this.#parts.database.transaction(async (query) => {
      const before = await findUser({ query }, { id });
      if (before === undefined) return problem('user_unknown');
      if (!(await setInvitation(query, id, hash))) return problem('password_exists');
      const user = (await findUser({ query }, { id }))!;
      await record(query, this.#actor, { action: 'user.invite', target: targetOf(user), before, after: user });
      return { kind: 'done', value: { user, token } };
    });
  }

  /** Revokes the invitation of a user; without one nothing changes. */
  revokeInvitation(id: string): Promise<Result<null>> {
    return this.#parts.database.transaction(async (query) => {
      const before = await findUser({ query }, { id });
      if (before === undefined) return problem('user_unknown');
      if (before.invited_until === null) return { kind: 'done', value: null };
      await clearInvitation(query, id);
      const after = (await findUser({ query }, { id }))!;
      await record(query, this.#actor, { action: 'user.revoke_invitation', target: targetOf(before), before, after });
      return { kind: 'done', value: null };
    });
  }

  /** Deletes a user with its sessions and tokens; the audit log keeps the name. */
  remove(id: string, expects: Expects<UserRecord> = asItIs): Promise<Result<null>> {
    return this.#parts.database.transaction(async (query) => {
      const before = await this.#before(query, id, expects, true);
      if ('kind' in before) return before;
      await deleteUser(query, id);
      await record(query, this.#actor, { action: 'user.delete', target: targetOf(before), before });
      return { kind: 'done', value: null };
    });
  }

  /** Returns the user before a change. Locks the administrators, so that two concurrent changes cannot remove the last two. */
  async #before(
    query: Query,
    id: string,
    expects: Expects<UserRecord>,
    endsAdministrator: boolean,
  ): Promise<UserRecord | Problem> {
    const administrators = await lockAdministrators(query);
    const before = await findUser({ query }, { id });
    if (before === undefined) return problem('user_unknown');
    if (!expects(before)) return problem('precondition_failed');
    const isAdministrator = before.role === 'administrator' && !before.disabled;
    return isAdministrator && endsAdministrator && administrators === 1 ? problem('last_administrator') : before;
  }

  async #hash(password: string | null): Promise<string | 'busy' | null> {
    if (password === null) return null;
    return (await this.#parts.passwords.admit((hasher) => hasher.hash(password))) ?? 'busy';
  }
}

function targetOf({ id, email }: UserRecord): { kind: string; id: string; name: string } {
  return { kind: 'user', id, name: email };
}
