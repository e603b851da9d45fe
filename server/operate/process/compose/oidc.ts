/** The parts of a process for hosted sign-in by OpenID Connect. */
import { createReadJwt } from '../../../manage/auth/oidc/bearer.ts';
import { PendingSignIns } from '../../../manage/auth/oidc/pending.ts';
import { Provider, signOutAddress } from '../../../manage/auth/oidc/provider.ts';
import { HostedSignIn } from '../../../manage/auth/oidc/sign-in.ts';
import { derivedKeys, PreviousKey } from '../../../store/secrets/keys.ts';
import type { Base } from '../base.ts';

/** With AUTH_MODE=local, sign-in and JWTs are absent. */
export interface Oidc {
  signIn: HostedSignIn | null;
  readJwt: ReturnType<typeof createReadJwt> | null;
  /** Sign-out at the identity provider; null if the provider has no sign-out URL. */
  signOutAddress: () => Promise<string | null>;
}

/** Builds these parts. No request to the provider is made. */
export function composeOidc({ settings, keys, database, log, identityRequestSeconds }: Base): Oidc {
  const { PUBLIC_URL: publicUrl, OIDC_ROLE_CLAIM: roleClaim, OIDC_ROLE_DAYS: roleDays } = settings;
  const issuer = settings.OIDC_ISSUER!;
  const clientId = settings.OIDC_CLIENT_ID!;
  const provider = new Provider({
    issuer,
    clientId,
    clientSecret: settings.OIDC_CLIENT_SECRET!,
    requestTimeoutSeconds: identityRequestSeconds,
    onChange: (up, reason) => log(up ? 'identity_provider_up' : 'identity_provider_down', { issuer, reason }),
  });
  const signIn = new HostedSignIn({
    provider,
    pending: new PendingSignIns({
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
    signOutAddress: () => signOutAddress(provider, publicUrl),
  };
}
