/**
 * Step-up: a change that would outlast a stolen cookie asks once more who it is. In local mode for the password; in hosted mode for a
 * sign-in at the provider a short while ago. Tokens and JWTs are not asked: what they may do is limited otherwise.
 */
import type { Actor } from '../audit/actor.ts';
import type { Database } from '../db/pool.ts';
import type { UserRow } from '../db/queries/people.ts';
import { findPasswordUser } from '../db/queries/users.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Hasher, Passwords } from '../passwords/hash.ts';
import { recordFailure } from './failed-sign-ins.ts';
import { hasSession, type Person } from './person.ts';
import { type Attempt, accountKey, attempt } from './throttle.ts';

/** Hosted mode: how long ago the sign-in at the provider may be. */
export const REAUTHENTICATION_SECONDS = 300;

interface StepUpParts {
  database: Database;
  passwords: Passwords;
  /** AUTH_MODE is hosted: there are no passwords. */
  hosted: boolean;
}

/** `missing`: no password was given; `failed`: another one; `stale`: the sign-in at the provider was too long ago. */
export type Confirmation =
  | { kind: 'confirmed' | 'missing' | 'failed' | 'stale' | 'busy' }
  | { kind: 'wait'; seconds: number };

/** Whether somebody who wants to make such a change is who it says. @param password what was given as current_password. */
export async function confirmIdentity(
  { database, passwords, hosted }: StepUpParts,
  exchange: Exchange,
  person: Person,
  actor: Actor,
  password: string | undefined,
): Promise<Confirmation> {
  if (!hasSession(person)) return { kind: 'confirmed' };
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

/** True while the last sign-in of the session is recent enough. */
export function isFresh({ via }: Person): boolean {
  return via.kind === 'session' && via.authenticatedSecondsAgo <= REAUTHENTICATION_SECONDS;
}

type OwnPassword =
  | { kind: 'fits'; user: UserRow & { passwordHash: string }; counted: Attempt }
  | { kind: 'failed' }
  | { kind: 'wait'; seconds: number };

/**
 * Verifies the password of somebody who is signed in. Throttled, so that a stolen session is no way to guess; by id, so that
 * strangers at the sign-in form cannot use it up.
 */
export async function checkOwnPassword(
  database: Database,
  hasher: Hasher,
  exchange: Exchange,
  { id, email }: Person,
  actor: Actor,
  password: string,
): Promise<OwnPassword> {
  const key = accountKey(id);
  const counted = await attempt(database, exchange, key);
  if (typeof counted === 'number') return { kind: 'wait', seconds: counted };
  const user = await findPasswordUser(database, { id });
  const fits = await hasher.verify(user?.passwordHash ?? null, password);
  if (user !== undefined && fits) return { kind: 'fits', user, counted };
  await recordFailure(database, actor, key, { kind: 'user', id, name: email });
  return { kind: 'failed' };
}
