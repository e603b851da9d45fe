/** Sign-in at the provider: authorization code flow with PKCE (OpenID Connect Core 1.0, section 3.1; RFC 7636; RFC 9700). */
import * as oidc from 'openid-client';
import type { Database } from '../../db/pool.ts';
import type { UserRow } from '../../db/queries/people.ts';
import { countAdministrators } from '../../db/queries/users.ts';
import type { ProblemCode } from '../../errors.ts';
import type { Exchange } from '../../http/exchange.ts';
import { Refused } from '../../http/refused.ts';
import { returnAddress } from '../return-to.ts';
import type { OpenedSession } from '../sessions.ts';
import { startSession } from '../sign-in.ts';
import { admit, recordAdmission } from './admit.ts';
import type { Identity } from './claims.ts';
import { identify } from './identify.ts';
import type { Pending, PendingCookie } from './pending.ts';
import { type Provider, reasonOf } from './provider.ts';

/** Somebody whom the provider sends away is out within so long, whatever the browser does. */
const HOSTED_SESSION_SECONDS = 12 * 3600;

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

  /** Keeps the sign-in in a cookie, and the address of the provider that goes with it. Rejects with Refused while it is away. */
  async begin(exchange: Exchange): Promise<URL> {
    const { provider, pending, publicUrl, scopes } = this.#parts;
    const { config } = await provider.find();
    const returnTo = returnAddress(new URLSearchParams(exchange.query).get('return_to'), publicUrl);
    const begun: Pending = {
      state: oidc.randomState(),
      nonce: oidc.randomNonce(),
      verifier: oidc.randomPKCECodeVerifier(),
      returnTo,
    };
    pending.keep(exchange, begun, Date.now());
    return oidc.buildAuthorizationUrl(config, {
      redirect_uri: redirectUri(publicUrl),
      scope: scopes,
      state: begun.state,
      nonce: begun.nonce,
      code_challenge: await oidc.calculatePKCECodeChallenge(begun.verifier),
      code_challenge_method: 'S256',
    });
  }

  /** What the browser brings back from the provider. Nothing is asked of the provider for a sign-in that was not begun here. */
  async finish(exchange: Exchange): Promise<CallbackOutcome> {
    const { pending, provider, publicUrl, roleClaim } = this.#parts;
    const begun = pending.read(exchange, Date.now());
    const states = new URLSearchParams(exchange.query).getAll('state');
    if (begun === null || states.length !== 1 || states[0] !== begun.state) return refused('sign_in_lost');
    try {
      const callback = new URL(`${redirectUri(publicUrl)}?${exchange.query}`);
      const identity = await identify(await provider.find(), callback, begun, roleClaim);
      const outcome = await this.#admit(exchange, identity, begun.returnTo);
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

  async #admit(exchange: Exchange, identity: Identity, returnTo: string): Promise<CallbackOutcome> {
    const { database, publicUrl, onNoAdministrator } = this.#parts;
    const outcome = await database.transaction(async (query) => {
      const admission = await admit(query, identity, exchange);
      if (admission.kind === 'refused') return admission;
      await recordAdmission(query, admission);
      const { session } = await startSession(query, exchange, admission.user, publicUrl, HOSTED_SESSION_SECONDS);
      return { ...admission, session };
    });
    if (outcome.kind === 'refused') return refused(outcome.code);
    const { user, happened, session } = outcome;
    // What the provider says holds, whoever it is: it also says who may be administrator next.
    if (
      happened?.action === 'user.update' &&
      user.role !== 'administrator' &&
      (await countAdministrators(database)) === 0
    )
      onNoAdministrator(exchange, user);
    return { kind: 'signed_in', session, returnTo };
  }
}

/** Where the provider sends browsers back to; it must be registered there. */
export function redirectUri(publicUrl: string): string {
  return `${publicUrl}/oidc/callback`;
}

function refused(code: ProblemCode): CallbackOutcome {
  return { kind: 'refused', code, retryAfterSeconds: null };
}
