/** Reads the claims of an identity provider (OpenID Connect Core 1.0, section 5.1). */
import { type Role, roles } from '../../../model/users.ts';

export type IdentityClaims = Readonly<Record<string, unknown>>;

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
 * Returns null when the subject cannot be stored.
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
