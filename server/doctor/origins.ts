/** Checks that the URLs for browsers and senders match each other. Otherwise the pages load but every API call fails. */
import type { Settings } from '../settings/read.ts';
import { advice, type Check, ok, problem } from './check.ts';

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
        `pages at ${pages} call the API at ${api}, but CORS_ORIGINS does not allow ${pages}: browsers will refuse`,
        `add ${pages} to CORS_ORIGINS, or give FRONTEND_PUBLIC_API_URL and PUBLIC_URL the same origin`,
      ),
    );
  if (pages.startsWith('https:') && api.startsWith('http:'))
    checks.push(
      problem(
        'origins',
        `pages at ${pages} may not call ${api}: browsers refuse http from https pages`,
        'give FRONTEND_PUBLIC_API_URL an https origin',
      ),
    );
  const plain = allowed.filter((origin) => origin.startsWith('http:') && !isLocalName(new URL(origin).hostname));
  if (api.startsWith('https:') && plain.length > 0)
    checks.push(
      advice(
        'origins',
        `CORS_ORIGINS allows ${plain.join(', ')}: whoever can change such a page on its way can call the API for its readers`,
        'serve these pages by https and name their https origins',
      ),
    );
  if (!isLocalName(settings.HOST) && isLocalName(new URL(api).hostname))
    checks.push(
      advice(
        'origins',
        `Weir listens on ${settings.HOST}, but senders are told ${api}, which is their own machine`,
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
  const everybody = proxies.filter((network) => network.endsWith('/0'));
  if (everybody.length > 0)
    return problem(
      'proxies',
      `TRUSTED_PROXIES holds ${everybody.join(', ')}: any sender may claim any address and escape its limit`,
      'name the addresses of your proxies alone',
    );
  if (proxies.length === 0 && pages.startsWith('https:'))
    return advice(
      'proxies',
      'PUBLIC_URL is https, so a proxy stands in front, but TRUSTED_PROXIES is empty: all senders share one limit',
      'set TRUSTED_PROXIES to the addresses of the proxy',
    );
  return ok(
    'proxies',
    proxies.length === 0 ? 'none are trusted; the peer is the client' : `${proxies.join(', ')} are trusted`,
  );
}

function isLocalName(host: string): boolean {
  return /^(localhost|127\..+|\[?::1\]?)$/.test(host);
}
