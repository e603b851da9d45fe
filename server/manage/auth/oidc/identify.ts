/** Identifies the person after the redirect from the provider: exchanges the code, verifies the ID token, collects the claims. */
import { errors as joseErrors, jwtVerify } from 'jose';
import * as oidc from 'openid-client';
import { ProblemError, problem } from '../../../base/http/problem.ts';
import { combinedClaims, type Identity, type IdentityClaims, identityOf } from './claims.ts';
import type { Pending } from './pending.ts';
import { CLOCK_TOLERANCE_SECONDS, type KnownProvider, providerAway, signingAlgorithms } from './provider.ts';

/** Wait before a request that just failed is retried. */
const AGAIN_MS = 1_000;

/**
 * Rejects with ProblemError; its cause is for operators. `authTime` is the time of the sign-in at the provider, in seconds since 1970;
 * null: the provider does not report it.
 * @param callback the callback URL that the browser requested
 * @param roleClaim OIDC_ROLE_CLAIM
 */
export async function identify(
  known: KnownProvider,
  callback: URL,
  begun: Pending,
  roleClaim: string,
): Promise<{ identity: Identity; authTime: number | null }> {
  try {
    const tokens = await oidc.authorizationCodeGrant(known.config, callback, {
      expectedState: begun.state,
      expectedNonce: begun.nonce,
      pkceCodeVerifier: begun.verifier,
      idTokenExpected: true,
    });
    await checkSignature(known, tokens.id_token!);
    const claims: IdentityClaims = { ...tokens.claims() };
    const identity = identityOf(known.issuer, claims, roleClaim);
    if (identity === null)
      throw new ProblemError(problem('identity_refused'), new Error('the subject is not ASCII text'));
    const authTime = typeof claims.auth_time === 'number' ? claims.auth_time : null;
    if (identity.role !== null && identity.email !== null) return { identity, authTime };
    const more = await userInfo(known.config, tokens.access_token, identity.subject);
    return { identity: identityOf(known.issuer, combinedClaims(claims, more), roleClaim)!, authTime };
  } catch (error) {
    throw refusalOf(error);
  }
}

/**
 * openid-client checks the claims but not the signature, because the token comes directly from the provider. Weir verifies the
 * signature as well. An unknown key reloads the key set immediately, without the cooldown: only a response of the provider leads
 * here.
 */
async function checkSignature({ keys }: KnownProvider, idToken: string): Promise<void> {
  const verify = () =>
    jwtVerify(idToken, keys, { algorithms: signingAlgorithms, clockTolerance: CLOCK_TOLERANCE_SECONDS });
  await verify().catch(async (error) => {
    if (!(error instanceof joseErrors.JWKSNoMatchingKey)) throw error;
    await keys.reload();
    await verify();
  });
}

/** Providers may keep the ID token small and return the other claims here. */
async function userInfo(config: oidc.Configuration, accessToken: string, subject: string): Promise<IdentityClaims> {
  if (config.serverMetadata().userinfo_endpoint === undefined) return {};
  return oidc.fetchUserInfo(config, accessToken, subject);
}

function refusalOf(error: unknown): unknown {
  if (error instanceof ProblemError) return error;
  if (error instanceof oidc.AuthorizationResponseError) return new ProblemError(problem('sign_in_denied'), error);
  if (isAway(error)) return providerAway(AGAIN_MS, error);
  const isRefusal = [
    oidc.ClientError,
    oidc.ResponseBodyError,
    oidc.WWWAuthenticateChallengeError,
    joseErrors.JOSEError,
  ].some((kind) => error instanceof kind);
  return isRefusal ? new ProblemError(problem('identity_refused'), error) : error;
}

/** The request did not reach the provider, or the provider failed. */
function isAway(error: unknown): boolean {
  if (error instanceof oidc.ResponseBodyError) return error.status >= 500;
  if (error instanceof oidc.ClientError)
    return error.code === 'OAUTH_TIMEOUT' || (error.cause instanceof Response && error.cause.status >= 500);
  // A fetch failure is a TypeError with a cause; a bug has no cause.
  return error instanceof TypeError && error.cause instanceof Error;
}
