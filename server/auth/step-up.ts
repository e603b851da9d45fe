/**
 * Step-up: a change whose effect would outlast a stolen cookie requires the user to authenticate again. Local mode asks for the
 * password; hosted mode requires a recent sign-in at the provider. API tokens and JWTs are exempt: other rules limit what they
 * may do.
 */
import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import type { Database } from '../db/pool.ts';
import { deleteSessionsOfUser } from '../db/queries/sessions.ts';
import { revokeTokensOfUser } from '../db/queries/tokens.ts';
import { type ActiveUser, confirmPassword, findPasswordUser } from '../db/queries/users.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Hasher, Passwords } from '../passwords/hash.ts';
import { isBearer, type Person } from './person.ts';
import type { SignInParts } from './sign-in.ts';
import { accountKey, countSignIn, recordFailure, type SignInAttempt } from './throttle.ts';

/** Hosted mode: maximum age of the sign-in at the provider. */
export const REAUTHENTICATION_SECONDS = 300;

interface StepUpParts {
  database: Database;
  passwords: Passwords;
  /** AUTH_MODE is hosted: users have no passwords. */
  hosted: boolean;
}

/** `missing`: no password given; `failed`: wrong password; `stale`: the sign-in at the provider is too old. */
export type Confirmation =
  | { kind: 'confirmed' | 'missing' | 'failed' | 'stale' | 'busy' }
  | { kind: 'wait'; seconds: number };

/**
 * Authenticates the person again before a sensitive change.
 * @param password the given current_password
 */
export async function confirmIdentity(
  { database, passwords, hosted }: StepUpParts,
  exchange: Exchange,
  person: Person,
  actor: Actor,
  password: string | undefined,
): Promise<Confirmation> {
  if (isBearer(person)) return { kind: 'confirmed' };
  if (hosted) return { kind: isFresh(person) ? 'confirmed' : 'stale' };
  if (password === undefined || password === '') return { kind: 'missing' };
  const outcome = await passwords.admit(async (hasher): Promise<Confirmation> => {
    const checked = await checkOwnPassword(database, hasher, exchange, person, actor, password);
    if (checked.kind !== 'fits') return checked;
    await checked.counted.succeeded(database.query);
    return { kind: 'confirmed' };
  });
  return outcome ?? { kind: 'busy' };
}

/** True while the session's last sign-in is recent enough. */
export function isFresh({ via }: Person): boolean {
  return via.kind === 'session' && via.authenticatedSecondsAgo <= REAUTHENTICATION_SECONDS;
}

type OwnPassword =
  | { kind: 'fits'; user: ActiveUser & { passwordHash: string }; counted: SignInAttempt }
  | { kind: 'failed' }
  | { kind: 'wait'; seconds: number };

/**
 * Verifies the password of a signed-in user. Throttled, so that a stolen session cannot be used to guess it. Counted by user id,
 * so that failures at the sign-in form do not use up this limit.
 */
async function checkOwnPassword(
  database: Database,
  hasher: Hasher,
  exchange: Exchange,
  { id, email }: Person,
  actor: Actor,
  password: string,
): Promise<OwnPassword> {
  const key = accountKey(id);
  const counted = await countSignIn(database, exchange, key);
  if (typeof counted === 'number') return { kind: 'wait', seconds: counted };
  const user = await findPasswordUser(database, { id });
  const fits = await hasher.verify(user?.passwordHash ?? null, password);
  if (user !== undefined && fits) return { kind: 'fits', user, counted };
  await recordFailure(database, actor, key, { kind: 'user', id, name: email });
  return { kind: 'failed' };
}

/** `failed`: the current password is wrong. */
type ChangeOutcome =
  | { kind: 'done'; revokedTokens: number }
  | { kind: 'failed' | 'busy' }
  | { kind: 'wait'; seconds: number };

interface PasswordChange {
  current: string;
  /** Must pass passwordProblem. */
  next: string;
  /** Revokes the user's API tokens too: anyone who knew the old password may have created some. */
  revokeTokens: boolean;
}

/** Password change by the user: requires the current password and ends every other session. */
export async function changePassword(
  { database, passwords }: SignInParts,
  exchange: Exchange,
  person: Person,
  actor: Actor,
  { current, next, revokeTokens }: PasswordChange,
): Promise<ChangeOutcome> {
  const outcome = await passwords.admit(async (hasher): Promise<ChangeOutcome> => {
    const checked = await checkOwnPassword(database, hasher, exchange, person, actor, current);
    if (checked.kind !== 'fits') return checked;
    const { user, counted } = checked;
    const newHash = await hasher.hash(next);
    return database.transaction<ChangeOutcome>(async (query) => {
      if (!(await confirmPassword(query, user.id, user.passwordHash, newHash))) return { kind: 'failed' };
      await deleteSessionsOfUser(query, user.id, person.via.kind === 'session' ? person.via.sessionId : null);
      const revoked = revokeTokens ? await revokeTokensOfUser(query, user.id) : [];
      await counted.succeeded(query);
      const target = { kind: 'user', id: user.id, name: user.email };
      const after = revokeTokens ? { revoked_tokens: revoked } : null;
      await record(query, actor, { action: 'account.password', target, after });
      return { kind: 'done', revokedTokens: revoked.length };
    });
  });
  return outcome ?? { kind: 'busy' };
}
