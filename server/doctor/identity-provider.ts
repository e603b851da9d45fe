/** Hosted sign-in: checks that the provider responds, has the configured issuer, and supports what Weir needs. */
import { discover, reasonOf } from '../auth/oidc/provider.ts';
import { redirectUri } from '../auth/oidc/sign-in.ts';
import type { Settings } from '../settings/read.ts';
import { type Check, ok, problem } from './check.ts';

/** Makes one request to the provider, within about 5 s. Only a sign-in shows whether the provider accepts Weir's client credentials. */
export async function checkIdentityProvider(settings: Settings): Promise<Check> {
  const name = 'identity_provider';
  if (settings.AUTH_MODE === 'local') return ok(name, 'users sign in at Weir itself');
  const issuer = settings.OIDC_ISSUER!;
  try {
    const config = await discover({
      issuer,
      clientId: settings.OIDC_CLIENT_ID!,
      clientSecret: settings.OIDC_CLIENT_SECRET!,
    });
    const { code_challenge_methods_supported: methods } = config.serverMetadata();
    if (methods !== undefined && !methods.includes('S256'))
      return problem(name, `${issuer} does not offer PKCE with S256`, 'turn it on for this client at the provider');
    const callback = redirectUri(settings.PUBLIC_URL);
    return ok(name, `${issuer} answers; the redirect URI to register there is ${callback}`);
  } catch (error) {
    const finding = `${issuer} is not usable: ${reasonOf(error)}`;
    return problem(
      name,
      finding,
      `open ${discoveryAddress(issuer)} from this machine: its issuer must equal OIDC_ISSUER exactly`,
    );
  }
}

/** The discovery URL (OpenID Connect Discovery 1.0, section 4.1). */
function discoveryAddress(issuer: string): string {
  return `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
}
