/** Checks the URLs for browsers and senders, which must match each other, trusted proxies, and the identity provider. */

import { isLoopback } from '../../base/net/loopback.ts';
import type { Settings } from '../../base/settings/read.ts';
import { discover, reasonOf } from '../../manage/auth/oidc/provider.ts';
import { redirectUri } from '../../manage/auth/oidc/sign-in.ts';
import { advice, type Check, ok, problem } from '../../model/check.ts';

export type Addresses = Pick<
  Settings,
  'HOST' | 'PUBLIC_URL' | 'FRONTEND_PUBLIC_API_URL' | 'CORS_ORIGINS' | 'TRUSTED_PROXIES'
>;

/** Checks only the settings; ports.ts checks what responds at these URLs. */
export function checkOrigins(settings: Addresses): Check[] {
  const { PUBLIC_URL: pages, FRONTEND_PUBLIC_API_URL: api, CORS_ORIGINS: allowed } = settings;
  const checks: Check[] = [];
  if (api !== pages && !allowed.includes(pages))
    checks.push(
      problem(
        'origins',
        `pages at ${pages} call the API at ${api}, but CORS_ORIGINS does not allow ${pages}: browsers will block the calls`,
        `add ${pages} to CORS_ORIGINS, or give FRONTEND_PUBLIC_API_URL and PUBLIC_URL the same origin`,
      ),
    );
  if (pages.startsWith('https:') && api.startsWith('http:'))
    checks.push(
      problem(
        'origins',
        `pages at ${pages} cannot call ${api}: browsers block http requests from https pages`,
        'give FRONTEND_PUBLIC_API_URL an https origin',
      ),
    );
  const plain = allowed.filter((origin) => origin.startsWith('http:') && !isLoopback(new URL(origin).hostname));
  if (api.startsWith('https:') && plain.length > 0)
    checks.push(
      advice(
        'origins',
        `CORS_ORIGINS allows ${plain.join(', ')}: an attacker who changes such a page in transit can call the API as its users`,
        'serve these pages over https and list their https origins',
      ),
    );
  if (!isLoopback(settings.HOST) && isLoopback(new URL(api).hostname))
    checks.push(
      advice(
        'origins',
        `Weir listens on ${settings.HOST}, but the address shown to senders is ${api}, which is their own machine`,
        'set PUBLIC_URL to the address that senders and browsers use',
      ),
    );
  return checks.length > 0
    ? checks
    : [ok('origins', `pages and API are at ${api === pages ? api : `${pages}, ${api}`}`)];
}

/** Checks that rate limits count the sender's address, not a proxy's. */
export function checkProxies(settings: Addresses): Check {
  const { TRUSTED_PROXIES: proxies, PUBLIC_URL: pages } = settings;
  const allAddresses = proxies.filter((network) => network.endsWith('/0'));
  if (allAddresses.length > 0)
    return problem(
      'proxies',
      `TRUSTED_PROXIES contains ${allAddresses.join(', ')}: any client can claim any address and evade its rate limit`,
      'list only the addresses of your proxies',
    );
  if (proxies.length === 0 && pages.startsWith('https:'))
    return advice(
      'proxies',
      'PUBLIC_URL is https, so there is a proxy in front of Weir, but TRUSTED_PROXIES is empty: all senders share one rate limit',
      'set TRUSTED_PROXIES to the addresses of the proxy',
    );
  return ok(
    'proxies',
    proxies.length === 0 ? 'no proxy is trusted; the client is the network peer' : `${proxies.join(', ')} are trusted`,
  );
}

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
