/** Sign-in at the provider: authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9700). */
import * as oidc from 'openid-client';
import type { Database } from '../../db/pool.ts';
import type { UserRow } from '../../db/queries/people.ts';
import { countAdministrators } from '../../db/queries/users.ts';
import type { ProblemCode } from '../../errors.ts';
import type { Exchange } from '../../http/exchange.ts';
import { Refused } from '../../http/refused.ts';
import type { Person } from '../person.ts';
import { returnAddress } from '../return-to.ts';
import { goOn, type OpenedSession } from '../sessions.ts';
import { startSession } from '../sign-in.ts';
import { admit, recordAdmission } from './admit.ts';
import type { Identity } from './claims.ts';
import { identify } from './identify.ts';
import type { Pending, PendingCookie } from './pending.ts';
import { type Provider, reasonOf } from './provider.ts';

/** However often the provider confirms it, a session is replaced by a new one after so long. */
const HOSTED_SESSION_SECONDS_MAX = 12 * 3600;

/** `max_age` of a step-up: who signed in there longer ago does so again. Much less than REAUTHENTICATION_SECONDS. */
const FRESH_SECONDS = 60;

/** How a callback ended; its pages are made from it. */
type CallbackOutcome =
  | { kind: 'signed_in'; session: OpenedSession; returnTo: string }
  | { kind: 'refused'; code: ProblemCode; retryAfterSeconds: number | null };

export interface SignInParts {
  provider: Provider;
  pending: PendingCookie;
  database: Database;
  publicUrl: string;
  /** OIDC_SCOPES */
  scopes: string;
  /** OIDC_ROLE_CLAIM */
  roleClaim: string;
  /** OIDC_ROLE_DAYS */
  roleDays: number;
  /** OIDC_SESSION_MINUTES: somebody whom the provider sends away is out within so long, whatever the browser does. */
  sessionSeconds: number;
  /** A sign-in failed by what came from outside. */
  onRefused: (exchange: Exchange, reason: string) => void;
  /** The provider took the role from the last administrator. */
  onNoAdministrator: (exchange: Exchange, user: UserRow) => void;
}

export class HostedSignIn {
  readonly #parts: SignInParts;

  constructor(parts: SignInParts) {
    this.#parts = parts;
  }

  /**
   * Keeps the sign-in in a cookie, and the address of the provider that goes with it. Rejects with Refused while it is away.
   * @param returnTo path of a page
   * @param fresh asks the provider for a sign-in that has just taken place, see step-up.ts
   */
  async begin(exchange: Exchange, returnTo: string | null, fresh = false): Promise<URL> {
    const { provider, pending, publicUrl, scopes } = this.#parts;
    const { config } = await provider.find();
    const begun: Pending = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
      returnTo: returnAddress(returnTo, publicUrl),
      fresh,
    };
    pending.keep(exchange, begun, Date.now());
    return oidc.buildAuthorizationUrl(config, {
      redirect_uri: redirectUri(publicUrl),
      scope: scopes,
      state: begun.state,
      nonce: begun.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(begun.verifier),
      code_challenge_method: 'S256',
      ...(fresh ? { max_age: String(FRESH_SECONDS) } : {}),
    });
  }

  /**
   * Where a page leads instead, whose session is in the second half of its time: to the provider and back, unseen by whoever is
   * signed in there. Null: it is not due, one is under way or was given up a moment ago, or the provider is away.
   */
  async confirmation(exchange: Exchange, { via }: Person, path: string): Promise<URL | null> {
    const { pending, sessionSeconds } = this.#parts;
    if (via.kind !== 'session' || via.secondsLeft > sessionSeconds / 2) return null;
    if ((await pending.read(exchange, Date.now())) !== null) return null;
    return this.begin(exchange, path).catch((error) => {
      if (error instanceof Refused) return null;
      throw error;
    });
  }

  /** What the browser brings back from the provider. Nothing is asked of the provider for a sign-in that was not begun here. */
  async finish(exchange: Exchange): Promise<CallbackOutcome> {
    const { pending, provider, publicUrl, roleClaim } = this.#parts;
    const begun = await pending.read(exchange, Date.now());
    const states = new URLSearchParams(exchange.query).getAll('state');
    if (begun === null || states.length !== 1 || states[0] !== begun.state) return refused('sign_in_lost');
    try {
      const callback = new URL(`${redirectUri(publicUrl)}?${exchange.query}`);
      const { identity, authTime } = await identify(await provider.find(), callback, begun, roleClaim);
      const outcome = await this.#admit(exchange, identity, begun.returnTo, secondsSince(authTime, begun.fresh));
      pending.forget(exchange);
      return outcome;
    } catch (error) {
      if (!(error instanceof Refused)) throw error;
      // While the provider is away the same callback may be tried again.
      if (error.retryAfterSeconds === null) pending.forget(exchange);
      if (error.cause !== undefined) this.#parts.onRefused(exchange, reasonOf(error.cause));
      return { kind: 'refused', code: error.code, retryAfterSeconds: error.retryAfterSeconds };
    }
  }

  async #admit(
    exchange: Exchange,
    identity: Identity,
    returnTo: string,
    authenticatedSecondsAgo: number | null,
  ): Promise<CallbackOutcome> {
    const { database, roleDays, onNoAdministrator } = this.#parts;
    const outcome = await database.transaction(async (query) => {
      const admission = await admit(query, identity, exchange, roleDays);
      if (admission.kind === 'refused') return admission;
      await recordAdmission(query, admission);
      if (admission.kind === 'role_ended') return admission;
      return { ...admission, session: await this.#session(query, exchange, admission.user, authenticatedSecondsAgo) };
    });
    if (outcome.kind === 'refused') return refused(outcome.code);
    const { user, roleBefore } = outcome;
    // What the provider says holds, whoever it is: it also says who may be administrator next.
    if (roleBefore === 'administrator' && user.role !== 'administrator' && (await countAdministrators(database)) === 0)
      onNoAdministrator(exchange, user);
    if (outcome.kind === 'role_ended') return refused('role_missing');
    return { kind: 'signed_in', session: outcome.session, returnTo };
  }

  async #session(
    query: Database['query'],
    exchange: Exchange,
    user: UserRow,
    authenticatedSecondsAgo: number | null,
  ): Promise<OpenedSession> {
    const { publicUrl, sessionSeconds: seconds } = this.#parts;
    const secondsMax = HOSTED_SESSION_SECONDS_MAX;
    const goesOn = await goOn(query, user.id, exchange, publicUrl, { seconds, secondsMax, authenticatedSecondsAgo });
    if (goesOn !== null) return goesOn;
    const opened = { seconds, authenticatedSecondsAgo: authenticatedSecondsAgo ?? 0 };
    return (await startSession(query, exchange, user, publicUrl, opened)).session;
  }
}

/**
 * How long ago the person signed in at the provider. Null: the provider does not say, and was not asked: then the session keeps
 * what it knows, and a new one was signed in now. A provider that was asked, and does not say, has sent the person back: now.
 */
function secondsSince(authTime: number | null, fresh: boolean): number | null {
  if (authTime === null) return fresh ? 0 : null;
  return Math.max(0, Math.round(Date.now() / 1000 - authTime));
}

/** Where the provider sends browsers back to; it must be registered there. */
export function redirectUri(publicUrl: string): string {
  return `${publicUrl}/oidc/callback`;
}

function refused(code: ProblemCode): CallbackOutcome {
  return { kind: 'refused', code, retryAfterSeconds: null };
}
