/** Settings: users and sign-in. */
import { z } from 'zod';
import {
  commaList,
  count,
  fixed,
  flag,
  isIssuer,
  isOrigin,
  oneOf,
  optionalText,
  row,
  type Setting,
  secret,
  trimmedText,
} from '../values.ts';

export const signInSettings = {
  ADMIN_EMAIL: {
    schema: trimmedText.pipe(z.email()),
    allowed: 'an email address',
    meaning:
      'email of the first administrator, created at the start when no administrator exists; an existing user is never changed',
  },
  ADMIN_PASSWORD: secret(optionalText('12 to 200 characters, not a common password, no part of the address'))(
    'password of ADMIN_EMAIL; without both, the start prints a one-time setup URL while there is no administrator',
  ),
  AUTH_MODE: fixed(oneOf(['local', 'hosted'], 'local'))(
    'who authenticates users: Weir itself, or an OpenID Connect provider',
  ),
  FRONTEND_PUBLIC_AUTH_MODE: {
    schema: z.enum(['local', 'hosted']),
    fallbackShown: 'AUTH_MODE',
    allowed: 'local or hosted',
    meaning: 'must match AUTH_MODE; Weir refuses to start on a mismatch',
  },
  OIDC_ISSUER: {
    schema: trimmedText.refine(isIssuer),
    allowed: 'an https address without a query, exactly as the provider states it (http only for a loopback address)',
    meaning: 'OpenID Connect issuer; required when AUTH_MODE is hosted',
  },
  OIDC_CLIENT_ID: row(optionalText('the client id at the provider'))('required when AUTH_MODE is hosted'),
  OIDC_CLIENT_SECRET: secret(optionalText('the client secret at the provider'))('required when AUTH_MODE is hosted'),
  OIDC_ROLE_CLAIM: {
    schema: trimmedText,
    fallback: 'weir_role',
    allowed: 'the name of a claim; dots separate nested members (realm_access.roles)',
    meaning: 'claim that holds administrator, operator or viewer, or a list of them (the highest applies)',
  },
  OIDC_SCOPES: {
    schema: trimmedText.refine((scopes) => scopes.split(' ').includes('openid')),
    fallback: 'openid profile email',
    allowed: 'scopes separated by spaces, including openid',
    meaning: 'scopes that Weir requests at sign-in',
  },
  OIDC_AUDIENCE: row({
    ...optionalText('a value that the provider puts into the claim aud'),
    fallbackShown: 'OIDC_CLIENT_ID',
  })('audience of bearer JWTs for the API'),
  OIDC_SESSION_MINUTES: row(count(60, 5, 720))(
    'duration of a hosted session, unless the provider confirms it during that time',
  ),
  OIDC_ROLE_DAYS: row(count(30, 1, 3_650))(
    'days after the last sign-in at the provider for which API tokens of a hosted user stay active',
  ),
  OAUTH_ENABLED: row(flag(false))(
    'whether MCP clients, such as connectors of claude.ai, get access to /mcp by OAuth; needs a PUBLIC_URL with https, or a loopback one',
  ),
  CORS_ORIGINS: {
    schema: commaList.refine((list) => list.every(isOrigin)),
    fallback: '',
    allowed: 'a comma list of origins (https://example.org); * is refused',
    meaning: 'origins whose pages may call the API, exact match, credentials allowed',
  },
} as const satisfies Record<string, Setting>;
