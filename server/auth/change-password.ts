/** Password change by the user: requires the current password and ends every other session. */

import type { Actor } from '../audit/actor.ts';
import { record } from '../audit/record.ts';
import { deleteSessionsOfUser } from '../db/queries/sessions.ts';
import { revokeTokensOfUser } from '../db/queries/tokens.ts';
import { confirmPassword } from '../db/queries/users.ts';
import type { Exchange } from '../http/exchange.ts';
import type { Person } from './person.ts';
import type { SignInParts } from './sign-in.ts';
import { checkOwnPassword } from './step-up.ts';

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
