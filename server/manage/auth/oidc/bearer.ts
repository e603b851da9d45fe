/** Bearer JWTs of the identity provider for the API: access tokens (RFC 9068, and the formats that preceded it; RFC 8725). */
import { type JWTPayload, type JWTVerifyResult, errors as joseErrors, jwtVerify } from 'jose';
import type { Exchange } from '../../../base/http/exchange.ts';
import { ProblemError, problem } from '../../../base/http/problem.ts';
import { record } from '../../../store/audit/record.ts';
import type { Database } from '../../../store/connect/pool.ts';
import { findHostedUser } from '../../../store/queries/users/hosted.ts';
import type { ActiveUser } from '../../../store/queries/users/users.ts';
import type { ReadJwt } from '../people.ts';
import { admitIdentity } from './admit.ts';
import { type Identity, identityOf } from './identify.ts';
import { CLOCK_TOLERANCE_SECONDS, type Provider, signingAlgorithms } from './provider.ts';

interface BearerParts {
  provider: Provider;
  database: Database;
  /** OIDC_AUDIENCE */
  audience: string;
  /** OIDC_ROLE_CLAIM */
  roleClaim: string;
  /** OIDC_ROLE_DAYS */
  roleDays: number;
}

/**
 * Creates the token reader. The subject of a token becomes a user at its first use, with the role in the token. The reader
 * rejects with ProblemError when the provider is unavailable and its keys are not cached, and when the token contains no role.
 */
export function createReadJwt({ provider, database, audience, roleClaim, roleDays }: BearerParts): ReadJwt {
  return async (token, exchange) => {
    const { issuer, keys } = await provider.find();
    const payload = await jwtVerify(token, keys, {
      algorithms: signingAlgorithms,
      issuer,
      audience,
      clockTolerance: CLOCK_TOLERANCE_SECONDS,
      requiredClaims: ['sub', 'exp'],
    }).then(accessTokenPayload, (error) => {
      if (error instanceof joseErrors.JOSEError) return null;
      throw error;
    });
    const identity = payload && identityOf(issuer, payload, roleClaim);
    if (identity === null) return null;
    const user = await findOrAdmit(database, identity, exchange, roleDays);
    // `exp` is required, and was checked to be a number.
    return { user, expiresAt: new Date(payload!.exp! * 1000) };
  };
}

/**
 * Returns the payload, or null when the token is marked as another type. ID tokens are refused: they pass through browsers, and
 * their audience may be Weir's. An ID token is recognized by the nonce, which Weir always requests, or by a hash claim.
 */
function accessTokenPayload({ protectedHeader, payload }: JWTVerifyResult): JWTPayload | null {
  const type = protectedHeader.typ?.toLowerCase().replace(/^application\//, '') ?? 'jwt';
  if (type === 'at+jwt') return payload;
  // Keycloak sets the type in the payload.
  if (type !== 'jwt' || (payload.typ ?? 'Bearer') !== 'Bearer') return null;
  const isIdToken = payload.typ === undefined && ['nonce', 'at_hash', 'c_hash'].some((claim) => claim in payload);
  return isIdToken ? null : payload;
}

/** An existing user is only read: name, email and role in the token apply to this request alone and are not stored. */
async function findOrAdmit(
  database: Database,
  identity: Identity,
  exchange: Exchange,
  roleDays: number,
): Promise<ActiveUser> {
  if (identity.role === null) throw new ProblemError(problem('role_missing'));
  const known = await findHostedUser(database.query, identity.issuer, identity.subject);
  if (known?.disabled) throw new ProblemError(problem('user_disabled'));
  if (known !== undefined) return { ...known, role: identity.role };
  return database.transaction(async (query) => {
    const admission = await admitIdentity(query, identity, exchange, roleDays);
    if (admission.kind !== 'admitted')
      throw new ProblemError(problem(admission.kind === 'refused' ? admission.code : 'role_missing'));
    if (admission.change !== null) await record(query, admission.actor, admission.change);
    return admission.user;
  });
}
