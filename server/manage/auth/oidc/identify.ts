/** Identifies the person after the redirect from the provider: exchanges the code, verifies the ID token, collects the claims. */
import { errors as joseErrors, jwtVerify } from 'jose';
import * as oidc from 'openid-client';
import { ProblemError, problem } from '../../../base/http/problem.ts';
import { type Role, roles } from '../../../model/users.ts';
import type { Pending } from './pending.ts';
import { CLOCK_TOLERANCE_SECONDS, type KnownProvider, providerAway, signingAlgorithms } from './provider.ts';

/** The claims of an identity provider (OpenID Connect Core 1.0, section 5.1). */
type IdentityClaims = Readonly<Record<string, unknown>>;

/** A person at the provider, with claims validated. */
export interface Identity {
  issuer: string;
  subject: string;
  /** Null: the claim is missing or not an email address. */
  email: string | null;
  /** The provider has verified that the person controls this address. Amazon Cognito writes `true` as text. */
  emailVerified: boolean;
  name: string;
  /** Null: the claims contain no Weir role. */
  role: Role | null;
}

/**
 * Validates the claims of a person. Returns null when the subject cannot be stored.
 * @param roleClaim OIDC_ROLE_CLAIM
 */
export function identityOf(issuer: string, claims: IdentityClaims, roleClaim: string): Identity | null {
  const { sub, email, email_verified, name, preferred_username } = claims;
  if (typeof sub !== 'string' || !/^[ -~]{1,255}$/.test(sub)) return null;
  return {
    issuer,
    subject: sub,
    email: isAddress(email) ? email : null,
    emailVerified: isAddress(email) && (email_verified === true || email_verified === 'true'),
    name: shown(name) || shown(preferred_username),
    role: highestRole(lookUp(claims, roleClaim)),
  };
}

/**
 * Merges the ID token and the userinfo response. `email` and `email_verified` are taken from the same document: the flag in one
 * says nothing about the address in the other.
 */
export function combinedClaims(idToken: IdentityClaims, userInfo: IdentityClaims): IdentityClaims {
  const { email, email_verified } = isAddress(idToken.email) ? idToken : userInfo;
  return { ...userInfo, ...idToken, email, email_verified };
}

function isAddress(email: unknown): email is string {
  return typeof email === 'string' && EMAIL_SHAPE.test(email) && email.length <= EMAIL_CHARACTERS_MAX;
}

const EMAIL_CHARACTERS_MAX = 254;
const EMAIL_SHAPE = /^[^\s\p{C}@]+@[^\s\p{C}@]+$/u;
const NAME_CHARACTERS_MAX = 200;

/** Name as it is stored: without control characters and broken surrogates, truncated. */
function shown(value: unknown): string {
  if (typeof value !== 'string') return '';
  return [...value.replace(/\p{C}/gu, '').trim()].slice(0, NAME_CHARACTERS_MAX).join('');
}

/** Looks up a claim by its full name first, because names may contain dots, then as a path into nested claims. */
function lookUp(claims: IdentityClaims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let value: unknown = claims;
  for (const step of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as IdentityClaims)[step];
  }
  return value;
}

/** Returns the highest Weir role in a name or list of names. Other names belong to other services. */
function highestRole(value: unknown): Role | null {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  return roles.findLast((role) => names.includes(role)) ?? null;
}

/** Wait before a request that just failed is retried. */
const AGAIN_MS = 1_000;

/**
 * Completes a sign-in after the redirect and returns the person. `authTime` is the time of the sign-in at the provider, in seconds since
 * 1970; null: the provider does not report it. Rejects with ProblemError, whose cause is for operators.
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

/** Fetches more claims: a provider may keep the ID token small and return the others here. */
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
