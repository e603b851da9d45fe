/** Hosted sign-in, where AUTH_MODE asks for it. */
import { createReadJwt } from '../../auth/oidc/bearer.ts';
import { PendingCookie } from '../../auth/oidc/pending.ts';
import { Provider, signOutAddress } from '../../auth/oidc/provider.ts';
import { HostedSignIn } from '../../auth/oidc/sign-in.ts';
import { derivedKeys, PreviousKey } from '../../secrets/keys.ts';
import type { Base } from '../base.ts';

export function composeOidc({ settings, keys, database, log }: Base) {
  if (settings.AUTH_MODE === 'local') return { signIn: null, readJwt: null, signOutAddress: async () => null };
  const { PUBLIC_URL: publicUrl, OIDC_ROLE_CLAIM: roleClaim, OIDC_ROLE_DAYS: roleDays } = settings;
  const issuer = settings.OIDC_ISSUER!;
  const clientId = settings.OIDC_CLIENT_ID!;
  const provider = new Provider({
    issuer,
    clientId,
    clientSecret: settings.OIDC_CLIENT_SECRET!,
    onChange: (up, reason) => log(up ? 'identity_provider_up' : 'identity_provider_down', { issuer, reason }),
  });
  const signIn = new HostedSignIn({
    provider,
    pending: new PendingCookie({
      publicUrl,
      keys: derivedKeys(keys, 'oidc-state'),
      previousKey: new PreviousKey(database, keys),
      context: JSON.stringify([issuer, clientId]),
    }),
    database,
    publicUrl,
    scopes: settings.OIDC_SCOPES,
    roleClaim,
    roleDays,
    sessionSeconds: settings.OIDC_SESSION_MINUTES * 60,
    onRefused: ({ requestId }, reason) => log('identity_refused', { request_id: requestId, reason }),
    onNoAdministrator: ({ requestId }, { email }) => log('administrator_missing', { request_id: requestId, email }),
  });
  return {
    signIn,
    readJwt: createReadJwt({ provider, database, audience: settings.OIDC_AUDIENCE ?? clientId, roleClaim, roleDays }),
    /** Sign-out at the identity provider; null if the provider has no sign-out URL. */
    signOutAddress: () => signOutAddress(provider, publicUrl),
  };
}
