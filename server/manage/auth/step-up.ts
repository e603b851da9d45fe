/**
 * Step-up: a change whose effect would outlast a stolen cookie requires the user to authenticate again. Local mode asks for the
 * password; hosted mode requires a recent sign-in at the provider. API tokens and JWTs are exempt: other rules limit what they
 * may do.
 */
import type { Exchange } from '../../base/http/exchange.ts';
import { invalid, problem, type Result } from '../../base/http/problem.ts';
import type { ProblemCode } from '../../model/errors.ts';
import { type Actor, record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { deleteSessionsOfUser } from '../../store/queries/users/sessions.ts';
import { revokeTokensOfUser } from '../../store/queries/users/tokens.ts';
import { confirmPassword, findPasswordUser } from '../../store/queries/users/users.ts';
import type { Passwords } from './password-hash.ts';
import { isBearer, type Person } from './person.ts';
import type { SignInParts } from './sign-in.ts';
import { accountKey, type PasswordAttempt, tryPassword } from './throttle.ts';

/** Hosted mode: maximum age of the sign-in at the provider. */
export const REAUTHENTICATION_SECONDS = 300;

/** Problems of an operation with `stepUp`. */
export const stepUpProblems = [
  'reauthentication_required',
  'sign_in_limited',
  'sign_in_busy',
] as const satisfies readonly ProblemCode[];

const SIGN_IN_AGAIN = `Sign in at the identity provider again: open /oidc/start?fresh=true in the browser, then repeat the change within ${REAUTHENTICATION_SECONDS / 60} minutes.`;
const confirmed: Result<null> = { kind: 'done', value: null };

interface StepUpParts {
  database: Database;
  passwords: Passwords;
  /** AUTH_MODE is hosted: users have no passwords. */
  hosted: boolean;
}

/**
 * Authenticates the person again before a sensitive change.
 * @param password the given current_password
 */
export async function confirmIdentity(
  parts: StepUpParts,
  exchange: Exchange,
  person: Person,
  actor: Actor,
  password: string | undefined,
): Promise<Result<null>> {
  if (isBearer(person)) return confirmed;
  if (parts.hosted) return isFresh(person) ? confirmed : problem('reauthentication_required', SIGN_IN_AGAIN);
  if (password === undefined || password === '')
    return problem('reauthentication_required', 'Give your password again, as current_password.');
  const tried = await tryOwnPassword(parts, exchange, person, actor, {
    password,
    use: (_user, succeeded) => succeeded(parts.database.query).then(() => true),
    failed: problem('reauthentication_required', NOT_PASSWORD),
  });
  return tried.kind === 'problem' ? tried : confirmed;
}

/** True while the session's last sign-in is recent enough. */
export function isFresh({ via }: Person): boolean {
  return via.kind === 'session' && via.authenticatedSecondsAgo <= REAUTHENTICATION_SECONDS;
}

const NOT_PASSWORD = 'This is not your password.';

/**
 * Tries the password of a signed-in user, so that a stolen session cannot be used to guess it. Counted by user id, so that failures at the
 * sign-in form do not use up this limit.
 */
function tryOwnPassword<T>(
  parts: Pick<StepUpParts, 'database' | 'passwords'>,
  exchange: Exchange,
  { id, email }: Person,
  actor: Actor,
  attempt: Omit<PasswordAttempt<T>, 'find'>,
): Promise<Result<T>> {
  const find = async () => {
    const user = await findPasswordUser(parts.database, { id });
    return { user, key: accountKey(id), device: null, actor, account: { kind: 'user', id, name: email } as const };
  };
  return tryPassword(parts, exchange, { ...attempt, find });
}

interface PasswordChange {
  current: string;
  /** The new password. It must pass passwordProblem. */
  next: string;
  /** Revokes the user's API tokens too: anyone who knew the old password may have created some. */
  revokeTokens: boolean;
}

/** Password change by the user: requires the current password and ends every other session. */
export async function changePassword(
  parts: SignInParts,
  exchange: Exchange,
  person: Person,
  actor: Actor,
  { current, next, revokeTokens }: PasswordChange,
): Promise<Result<{ revokedTokens: number }>> {
  return tryOwnPassword<{ revokedTokens: number }>(parts, exchange, person, actor, {
    password: current,
    use: async (user, succeeded, hasher) => {
      const newHash = await hasher.hash(next);
      return parts.database.transaction(async (query) => {
        if (!(await confirmPassword(query, user.id, user.passwordHash, newHash))) return null;
        await deleteSessionsOfUser(query, user.id, person.via.kind === 'session' ? person.via.sessionId : null);
        const revoked = revokeTokens ? await revokeTokensOfUser(query, user.id) : [];
        await succeeded(query);
        const target = { kind: 'user', id: user.id, name: user.email };
        const after = revokeTokens ? { revoked_tokens: revoked } : null;
        await record(query, actor, { action: 'account.password', target, after });
        return { revokedTokens: revoked.length };
      });
    },
    failed: invalid('/current_password', NOT_PASSWORD),
  });
}
