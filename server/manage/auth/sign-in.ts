/** Sign-in with email and password: throttles, verifies, and replaces the presented session with a new one. */
import type { Exchange } from '../../base/http/exchange.ts';
import { problem, type Result } from '../../base/http/problem.ts';
import { record } from '../../store/audit/record.ts';
import type { Database, Query } from '../../store/connect/pool.ts';
import { type ActiveUser, confirmPassword, findPasswordUser } from '../../store/queries/users/users.ts';
import type { DeviceCookies } from './device-cookies.ts';
import { isOutdated, type Passwords } from './password-hash.ts';
import { USER_SESSION_SECONDS } from './people.ts';
import { personActor, visitorActor } from './person.ts';
import { endPresentedSession, type OpenedSession, openSession } from './sessions.ts';
import { accountKey, tryPassword } from './throttle.ts';

export interface SignInParts {
  database: Database;
  passwords: Passwords;
  publicUrl: string;
  devices: DeviceCookies;
}

export interface SignedIn {
  user: ActiveUser;
  session: OpenedSession;
}

/**
 * Signs in with a password. Does the same work whether or not the account exists. `sign_in_failed` does not say whether the account is
 * unknown, disabled or without a password, or the password is wrong.
 */
export async function signIn(
  parts: SignInParts,
  exchange: Exchange,
  { email, password }: { email: string; password: string },
): Promise<Result<SignedIn>> {
  const { database, publicUrl, devices } = parts;
  const find = async () => {
    const user = await findPasswordUser(database, { email });
    const device = user === undefined ? null : devices.counterKey(exchange, user.id, Date.now());
    const account = { kind: 'user', id: user?.id ?? null, name: email } as const;
    return { user, key: accountKey(email), device, actor: visitorActor(exchange), account };
  };
  return tryPassword<SignedIn>(parts, exchange, {
    find,
    password,
    use: async ({ passwordHash, ...user }, succeeded, hasher) => {
      const newHash = isOutdated(passwordHash) ? await hasher.hash(password) : passwordHash;
      return database.transaction(async (query) => {
        if (!(await confirmPassword(query, user.id, passwordHash, newHash))) return null;
        await succeeded(query);
        return startSession(query, exchange, user, publicUrl);
      });
    },
    failed: problem('sign_in_failed'),
  });
}

/**
 * Last step of every sign-in: opens a session, ends the presented one, and records the sign-in.
 * @param authenticatedSecondsAgo seconds since the user was authenticated
 */
export async function startSession(
  query: Query,
  exchange: Exchange,
  user: ActiveUser,
  publicUrl: string,
  { seconds, authenticatedSecondsAgo } = { seconds: USER_SESSION_SECONDS, authenticatedSecondsAgo: 0 },
): Promise<SignedIn> {
  await endPresentedSession(query, exchange, publicUrl);
  const session = await openSession(query, user.id, exchange, { seconds, authenticatedSecondsAgo });
  const via = { kind: 'session', sessionId: session.id, secondsLeft: seconds, authenticatedSecondsAgo } as const;
  const actor = personActor({ ...user, via }, exchange);
  const target = { kind: 'user', id: user.id, name: user.email };
  await record(query, actor, { action: 'session.sign_in', target });
  return { user, session };
}

/** Limit on a return URL. An authorization request of OAuth has about 600. In hosted mode the URL is in a cookie of up to 4,096 bytes. */
const RETURN_TO_CHARACTERS_MAX = 1_536;

/**
 * Returns the absolute URL of `path` on Weir's own origin, or the first page when `path` is not a path on this origin. Absolute,
 * so that it cannot be read as a URL of another origin. A browser drops tabs and line ends and reads `\` as `/`; the WHATWG URL
 * parser does the same.
 */
export function returnAddress(path: string | null | undefined, publicUrl: string): string {
  const first = `${publicUrl}/`;
  if (!path?.startsWith('/')) return first;
  try {
    const { href, origin } = new URL(path, first);
    return origin === publicUrl && href.length <= RETURN_TO_CHARACTERS_MAX ? href : first;
  } catch {
    return first;
  }
}
