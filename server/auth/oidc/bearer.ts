/** Bearer JWTs of the provider for the API: access tokens (RFC 9068, and what providers made before it; RFC 8725). */
import { type JWTPayload, type JWTVerifyResult, errors as joseErrors, jwtVerify } from 'jose';
import type { Database } from '../../db/pool.ts';
import { findHostedUser } from '../../db/queries/hosted-users.ts';
import type { UserRow } from '../../db/queries/people.ts';
import type { Exchange } from '../../http/exchange.ts';
import { Refused } from '../../http/refused.ts';
import type { ReadJwt } from '../people.ts';
import { admit, recordAdmission } from './admit.ts';
import { type Identity, identityOf } from './claims.ts';
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
 * Reads tokens: whoever the provider made one for is a user from its first use on, in the role that the token itself says.
 * The reader rejects with Refused where the provider is away and its keys are not known, and where the token names no role.
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
    return identity === null ? null : findOrAdmit(database, identity, exchange, roleDays);
  };
}

/**
 * A token that says that it is something else than an access token is none. An ID token travels through browsers, and its
 * audience may be ours: it has the nonce of its sign-in, which Weir always asks for, or hashes of what came with it.
 */
function accessTokenPayload({ protectedHeader, payload }: JWTVerifyResult): JWTPayload | null {
  const type = protectedHeader.typ?.toLowerCase().replace(/^application\//, '') ?? 'jwt';
  if (type === 'at+jwt') return payload;
  // Keycloak says it in the payload.
  if (type !== 'jwt' || (payload.typ ?? 'Bearer') !== 'Bearer') return null;
  const isIdToken = payload.typ === undefined && ['nonce', 'at_hash', 'c_hash'].some((claim) => claim in payload);
  return isIdToken ? null : payload;
}

/** A known user is only read: what the token says of name, email and role holds for this request, and changes nothing. */
async function findOrAdmit(
  database: Database,
  identity: Identity,
  exchange: Exchange,
  roleDays: number,
): Promise<UserRow> {
  if (identity.role === null) throw new Refused('role_missing');
  const known = await findHostedUser(database.query, identity.issuer, identity.subject);
  if (known?.disabled) throw new Refused('user_disabled');
  if (known !== undefined) return { ...known, role: identity.role };
  return database.transaction(async (query) => {
    const admission = await admit(query, identity, exchange, roleDays);
    if (admission.kind !== 'admitted')
      throw new Refused(admission.kind === 'refused' ? admission.code : 'role_missing');
    await recordAdmission(query, admission);
    return admission.user;
  });
}
