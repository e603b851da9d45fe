/** What the claims of a provider say of a person (OpenID Connect Core 1.0, section 5.1). */
import { type Role, roles } from '../../db/roles.ts';

export type Claims = Readonly<Record<string, unknown>>;

/** Who stands at the provider, as Weir understands it. */
export interface Identity {
  issuer: string;
  subject: string;
  /** Null: the provider says none, or one that cannot be an address. */
  email: string | null;
  /** The provider vouches that the person reads mail of this address. */
  emailVerified: boolean;
  name: string;
  /** Null: none that Weir knows. */
  role: Role | null;
}

/** @param roleClaim OIDC_ROLE_CLAIM. Null when the subject is none that can be kept. */
export function identityOf(issuer: string, claims: Claims, roleClaim: string): Identity | null {
  const { sub, email, email_verified, name, preferred_username } = claims;
  if (typeof sub !== 'string' || !/^[ -~]{1,255}$/.test(sub)) return null;
  return {
    issuer,
    subject: sub,
    email: isAddress(email) ? email : null,
    emailVerified: isAddress(email) && email_verified === true,
    name: shown(name) || shown(preferred_username),
    role: highestRole(lookUp(claims, roleClaim)),
  };
}

/**
 * The ID token and what the userinfo endpoint adds to it. The address and whether it is verified come from one document: a
 * `email_verified` of the one says nothing about the address of the other.
 */
export function combinedClaims(idToken: Claims, userInfo: Claims): Claims {
  const { email, email_verified } = isAddress(idToken.email) ? idToken : userInfo;
  return { ...userInfo, ...idToken, email, email_verified };
}

function isAddress(email: unknown): email is string {
  return typeof email === 'string' && EMAIL_SHAPE.test(email) && email.length <= EMAIL_CHARACTERS_MAX;
}

const EMAIL_CHARACTERS_MAX = 254;
const EMAIL_SHAPE = /^[^\s\p{C}@]+@[^\s\p{C}@]+$/u;
const NAME_CHARACTERS_MAX = 200;

/** As a name is kept: without control characters and broken surrogates, and not too long. */
function shown(value: unknown): string {
  if (typeof value !== 'string') return '';
  return [...value.replace(/\p{C}/gu, '').trim()].slice(0, NAME_CHARACTERS_MAX).join('');
}

/** A claim by its name or, where none is called so, by the way into nested ones: names may hold dots themselves. */
function lookUp(claims: Claims, path: string): unknown {
  if (Object.hasOwn(claims, path)) return claims[path];
  let value: unknown = claims;
  for (const step of path.split('.')) {
    if (typeof value !== 'object' || value === null || !Object.hasOwn(value, step)) return undefined;
    value = (value as Claims)[step];
  }
  return value;
}

/** Of a name or a list of names, the one that may most. Other names are for other services. */
function highestRole(value: unknown): Role | null {
  const names: unknown[] = Array.isArray(value) ? value : [value];
  return roles.findLast((role) => names.includes(role)) ?? null;
}
