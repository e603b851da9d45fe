/**
 * Sign-in at the identity provider: authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9700).
 */
import * as oidc from 'openid-client';
import type { Exchange } from '../../../base/http/exchange.ts';
import { type Problem, ProblemError, problem } from '../../../base/http/problem.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database, Query } from '../../../store/connect/pool.ts';
import { type ActiveUser, countAdministrators } from '../../../store/queries/users/users.ts';
import type { Person } from '../person.ts';
import { extendPresentedSession, type OpenedSession } from '../sessions.ts';
import { returnAddress, startSession } from '../sign-in.ts';
import { admitIdentity } from './admit.ts';
import { type Identity, identify } from './identify.ts';
import type { Pending, PendingSignIns } from './pending.ts';
import { describeError, type Provider } from './provider.ts';

/** A session is replaced by a new one after this time, however often the provider has confirmed it. */
const HOSTED_SESSION_SECONDS_MAX = 12 * 3600;

/**
 * `max_age` of a step-up: a person whose last sign-in at the provider is older has to sign in again. Much less than
 * REAUTHENTICATION_SECONDS.
 */
const FRESH_SECONDS = 60;

/** Result of a callback. */
type CallbackOutcome = { kind: 'signed_in'; session: OpenedSession; returnTo: string } | Problem;

interface HostedSignInParts {
  provider: Provider;
  pending: PendingSignIns;
  database: Database;
  publicUrl: string;
  /** OIDC_SCOPES */
  scopes: string;
  /** OIDC_ROLE_CLAIM */
  roleClaim: string;
  /** OIDC_ROLE_DAYS */
  roleDays: number;
  /**
   * OIDC_SESSION_MINUTES in seconds: a person whose account at the provider was removed is signed out within this time, whatever
   * the browser does.
   */
  sessionSeconds: number;
  /** Called when a sign-in failed because of the provider or the request. */
  onRefused: (exchange: Exchange, reason: string) => void;
  /** Called when the provider has removed the role of the last administrator. */
  onNoAdministrator: (exchange: Exchange, user: ActiveUser) => void;
}

export class HostedSignIn {
  readonly #parts: HostedSignInParts;

  constructor(parts: HostedSignInParts) {
    this.#parts = parts;
  }

  /**
   * Stores the pending sign-in in a cookie and returns the provider's authorization URL. Rejects with ProblemError while the provider
   * is unavailable.
   * @param returnTo path of a page
   * @param fresh requests a sign-in that has just taken place, see step-up.ts
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
   * Returns the authorization URL to which a page redirects in the second half of its session's lifetime. The provider redirects
   * back without a prompt if the person is still signed in there. Null: not due yet, a confirmation is pending or was abandoned
   * recently, or the provider is unavailable.
   */
  async confirmation(exchange: Exchange, { via }: Person, path: string): Promise<URL | null> {
    const { pending, sessionSeconds } = this.#parts;
    if (via.kind !== 'session' || via.secondsLeft > sessionSeconds / 2) return null;
    if (pending.hasAny(exchange)) return null;
    return this.begin(exchange, path).catch((error) => {
      if (error instanceof ProblemError) return null;
      throw error;
    });
  }

  /**
   * Handles the callback from the provider. Sends no request to the provider for a sign-in that did not begin in this browser.
   */
  async finish(exchange: Exchange): Promise<CallbackOutcome> {
    const { pending, provider, publicUrl, roleClaim } = this.#parts;
    const [state, ...others] = new URLSearchParams(exchange.query).getAll('state');
    if (state === undefined || others.length > 0) return problem('sign_in_expired');
    const begun = await pending.read(exchange, state, Date.now());
    if (begun === null) return problem('sign_in_expired');
    try {
      const callback = new URL(`${redirectUri(publicUrl)}?${exchange.query}`);
      const { identity, authTime } = await identify(await provider.find(), callback, begun, roleClaim);
      const outcome = await this.#admit(exchange, identity, begun.returnTo, secondsSinceSignIn(authTime, begun.fresh));
      pending.forget(exchange, begun);
      return outcome;
    } catch (error) {
      if (!(error instanceof ProblemError)) throw error;
      // While the provider is unavailable the same callback can be retried.
      if (error.problem.retryAfterSeconds === undefined) pending.forget(exchange, begun);
      if (error.cause !== undefined) this.#parts.onRefused(exchange, describeError(error.cause));
      return error.problem;
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
      const admission = await admitIdentity(query, identity, exchange, roleDays);
      if (admission.kind === 'refused') return admission;
      if (admission.change !== null) await record(query, admission.actor, admission.change);
      if (admission.kind === 'role_ended') return admission;
      return { ...admission, session: await this.#session(query, exchange, admission.user, authenticatedSecondsAgo) };
    });
    if (outcome.kind === 'refused') return problem(outcome.code);
    const { user, roleBefore } = outcome;
    // The provider's roles apply to every user, the last administrator included: the provider can assign the next one.
    if (roleBefore === 'administrator' && user.role !== 'administrator' && (await countAdministrators(database)) === 0)
      onNoAdministrator(exchange, user);
    if (outcome.kind === 'role_ended') return problem('role_missing');
    return { kind: 'signed_in', session: outcome.session, returnTo };
  }

  async #session(
    query: Query,
    exchange: Exchange,
    user: ActiveUser,
    authenticatedSecondsAgo: number | null,
  ): Promise<OpenedSession> {
    const { publicUrl, sessionSeconds: seconds } = this.#parts;
    const secondsMax = HOSTED_SESSION_SECONDS_MAX;
    const extended = await extendPresentedSession(query, user.id, exchange, publicUrl, {
      seconds,
      secondsMax,
      authenticatedSecondsAgo,
    });
    if (extended !== null) return extended;
    const opened = { seconds, authenticatedSecondsAgo: authenticatedSecondsAgo ?? 0 };
    return (await startSession(query, exchange, user, publicUrl, opened)).session;
  }
}

/**
 * Seconds since the person signed in at the provider. Null: the provider does not report it and was not asked. An existing
 * session then keeps its value, and a new session counts as signed in now. A provider that was asked for a fresh sign-in and does
 * not report the time counts as signed in now.
 */
function secondsSinceSignIn(authTime: number | null, fresh: boolean): number | null {
  if (authTime === null) return fresh ? 0 : null;
  return Math.max(0, Math.round(Date.now() / 1000 - authTime));
}

/** The redirect URI; it must be registered at the provider. */
export function redirectUri(publicUrl: string): string {
  return `${publicUrl}/oidc/callback`;
}
