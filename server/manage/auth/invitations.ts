/** Invitation links: valid for 48 hours and once. Only the hash of the token is stored; the link is shown once. */
import { createHash, randomBytes } from 'node:crypto';
import type { Exchange } from '../../base/http/exchange.ts';
import { invalid, problem, problemLater, type Result } from '../../base/http/problem.ts';
import { passwordProblem } from '../../model/passwords/rules.ts';
import { record } from '../../store/audit/record.ts';
import type { Database } from '../../store/connect/pool.ts';
import { findInvited, useInvitation } from '../../store/queries/users/invitations.ts';
import type { ActiveUser } from '../../store/queries/users/users.ts';
import { visitorActor } from './person.ts';
import { type SignedIn, type SignInParts, startSession } from './sign-in.ts';

const TOKEN_BYTES = 32;

/** Creates a token of an invitation, and its hash to store. */
export function newInvitation(): { token: string; hash: Buffer } {
  const token = randomBytes(TOKEN_BYTES).toString('base64url');
  return { token, hash: hashOf(token) };
}

/** The page on which the user chooses a password. */
export function invitationUrl(publicUrl: string, token: string): string {
  return `${publicUrl}/invitation?token=${token}`;
}

/** The user for whom the link is; undefined: the link is not valid any more. */
export function invitedUser(database: Database, token: string): Promise<ActiveUser | undefined> {
  return findInvited(database, hashOf(token));
}

/** Sets the password and signs in. Of two concurrent calls one succeeds; the other returns `invitation_refused`. */
export async function acceptInvitation(
  { database, passwords, publicUrl }: SignInParts,
  exchange: Exchange,
  { token, password }: { token: string; password: string },
): Promise<Result<SignedIn> | ReturnType<typeof invalid>> {
  const invited = await invitedUser(database, token);
  if (invited === undefined) return problem('invitation_refused');
  const wrong = passwordProblem(password, invited.email);
  if (wrong !== null) return invalid('/password', wrong);
  const outcome = await passwords.admit(async (hasher): Promise<Result<SignedIn>> => {
    const passwordHash = await hasher.hash(password);
    return database.transaction<Result<SignedIn>>(async (query) => {
      const user = await useInvitation(query, hashOf(token), passwordHash);
      if (user === undefined) return problem('invitation_refused');
      const target = { kind: 'user', id: user.id, name: user.email };
      await record(query, visitorActor(exchange), { action: 'user.accept_invitation', target });
      return { kind: 'done', value: await startSession(query, exchange, user, publicUrl) };
    });
  });
  return outcome ?? problemLater('sign_in_busy', 1);
}

function hashOf(token: string): Buffer {
  return createHash('sha256').update(token).digest();
}
