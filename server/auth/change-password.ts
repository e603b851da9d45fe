/** A user's own change of password: with the present one, and every other session ends. */

import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import { deleteSessionsOfUser } from '../db/queries/sessions.ts';
import { confirmPassword, findPasswordUser } from '../db/queries/users.ts';
import type { Exchange } from '../http/exchange.ts';
import { recordFailure } from './failed-sign-ins.ts';
import type { Person } from './person.ts';
import type { SignInParts } from './sign-in.ts';
import { accountKey, attempt } from './throttle.ts';

/** `failed`: the present password is another one. */
type ChangeOutcome = { kind: 'done' | 'failed' | 'busy' } | { kind: 'wait'; seconds: number };

/** @param next one that passwordProblem has nothing against. */
export async function changePassword(
  { database, passwords }: SignInParts,
  exchange: Exchange,
  person: Person,
  actor: Actor,
  { current, next }: { current: string; next: string },
): Promise<ChangeOutcome> {
  const outcome = await passwords.admit(async (hasher): Promise<ChangeOutcome> => {
    // Throttled, so that a stolen session is no way to guess; by id, so that strangers at the sign-in form cannot use it up.
    const counted = await attempt(database, exchange, accountKey(person.id));
    if (typeof counted === 'number') return { kind: 'wait', seconds: counted };
    const user = await findPasswordUser(database, { id: person.id });
    const fits = await hasher.verify(user?.passwordHash ?? null, current);
    if (user === undefined || !fits) {
      const account = { kind: 'user', id: person.id, name: person.email } as const;
      await recordFailure(database, actor, accountKey(person.id), account);
      return { kind: 'failed' };
    }
    const newHash = await hasher.hash(next);
    return database.transaction<ChangeOutcome>(async (query) => {
      if (!(await confirmPassword(query, user.id, user.passwordHash, newHash))) return { kind: 'failed' };
      await deleteSessionsOfUser(query, user.id, person.via.kind === 'session' ? person.via.sessionId : null);
      await counted.succeeded(query);
      const target = { kind: 'user', id: user.id, name: user.email };
      await record(query, actor, { action: 'account.password', target });
      return { kind: 'done' };
    });
  });
  return outcome ?? { kind: 'busy' };
}
