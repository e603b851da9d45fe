/** User management for administrators. At least one active administrator always remains. */
import { randomUUID } from 'node:crypto';
import { mapped, ProblemError, problem, problemLater, type Result } from '../../../base/http/problem.ts';
import type { Role } from '../../../model/users.ts';
import type { Actor } from '../../../store/audit/record.ts';
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
import { asItIs, Changer, type Expects } from '../change.ts';

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
  readonly #changer: Changer<UserRecord>;

  constructor(parts: UserParts, actor: Actor) {
    this.#parts = parts;
    this.#changer = new Changer({ database: parts.database, changes: null }, actor, {
      name: 'user',
      nameOf: ({ email }) => email,
      unknown: 'user_unknown',
      // All administrators, so that two concurrent changes cannot remove the last two.
      lock: async (query) => (await lockAdministrators(query)) >= 0,
      find: (query, id) => findUser({ query }, { id }),
    });
  }

  /** Creates a user. Only here a generated password and an invitation's token are returned. A given password must pass passwordProblem. */
  async create(
    given: UserToMake,
  ): Promise<Result<{ user: UserRecord; generated: string | null; invitation: string | null }>> {
    const { email, name, role, password } = given;
    const generated = password === 'generate' ? generatePassword() : null;
    const invitation = password === 'invite' ? newInvitation() : null;
    const passwordHash = await this.#hash(invitation === null ? (generated ?? password) : null);
    if (passwordHash === 'busy') return problemLater('sign_in_busy', 1);
    const id = randomUUID();
    const made = await this.#changer.create(id, async (query) => {
      if (!(await insertUser(query, { id, email, name, role, passwordHash })))
        throw new ProblemError(problem('email_taken'));
      if (invitation !== null) await setInvitation(query, id, invitation.hash);
      return { isRestored: false };
    });
    return mapped(made, (user) => ({ user, generated, invitation: invitation?.token ?? null }));
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
    let revoked: string[] = [];
    const verb = passwordHash === null ? 'update' : 'reset_password';
    const changed = await this.#changer.change(id, verb, expects, async (query, before) => {
      if (disabled === true || (role !== undefined && role !== 'administrator')) await keepOne(query, before);
      await changeUser(query, id, { name, role, disabled, passwordHash });
      if (disabled === true || passwordHash !== null) await deleteSessionsOfUser(query, id, null);
      if (passwordHash !== null) await takeBack(query, { key: accountKey(before.email) });
      if (!revokeTokens) return {};
      revoked = await revokeTokensOfUser(query, id);
      return { after: { revoked_tokens: revoked } };
    });
    return mapped(changed, (user) => ({ user, revokedTokens: revoked.length }));
  }

  /** Creates a new invitation of a user without a password and ends an earlier one. The token is returned only here. */
  async invite(id: string): Promise<Result<{ user: UserRecord; token: string }>> {
    const { token, hash } = newInvitation();
    const changed = await this.#changer.change(id, 'invite', asItIs, async (query) => {
      if (!(await setInvitation(query, id, hash))) throw new ProblemError(problem('password_exists'));
    });
    return mapped(changed, (user) => ({ user, token }));
  }

  /** Revokes the invitation of a user; without one nothing changes. */
  async revokeInvitation(id: string): Promise<Result<UserRecord>> {
    const user = await findUser(this.#parts.database, { id });
    if (user?.invited_until === null) return { kind: 'done', value: user };
    return this.#changer.change(id, 'revoke_invitation', asItIs, (query) => clearInvitation(query, id));
  }

  /** Deletes a user with its sessions and tokens; the audit log keeps the name. */
  remove(id: string, expects: Expects<UserRecord> = asItIs): Promise<Result<UserRecord>> {
    return this.#changer.change(id, 'delete', expects, async (query, before) => {
      await keepOne(query, before);
      await deleteUser(query, id);
    });
  }

  async #hash(password: string | null): Promise<string | 'busy' | null> {
    if (password === null) return null;
    return (await this.#parts.passwords.admit((hasher) => hasher.hash(password))) ?? 'busy';
  }
}

/** Throws ProblemError for the last active administrator. */
async function keepOne(query: Query, { role, disabled }: UserRecord): Promise<void> {
  if (role === 'administrator' && !disabled && (await lockAdministrators(query)) === 1)
    throw new ProblemError(problem('last_administrator'));
}
