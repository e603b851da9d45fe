/**
 * Checks of addresses: those for browsers and senders, which must match each other, proxies, the identity provider, the two ports, and
 * the store of the request counters.
 */
import { Cluster, type Redis } from 'ioredis';
import { isLoopback, localUrl } from '../../base/net/loopback.ts';
import { connectSharedLimiter, SharedStoreError } from '../../base/ratelimit/shared.ts';
import { addressesOf, type CounterStore, openStore } from '../../base/ratelimit/store.ts';
import { probePort } from '../../base/settings/port.ts';
import type { Settings } from '../../base/settings/read.ts';
import { describeError, discover } from '../../manage/auth/oidc/provider.ts';
import { redirectUri } from '../../manage/auth/oidc/sign-in.ts';
import { advice, broken, brokenBy, type CheckTable, ok } from '../../model/check.ts';
import { OperatorError } from '../../model/fault.ts';
import { inMib } from '../../model/words.ts';

export type Addresses = Pick<
  Settings,
  'HOST' | 'PUBLIC_URL' | 'FRONTEND_PUBLIC_API_URL' | 'CORS_ORIGINS' | 'TRUSTED_PROXIES'
>;

/** Checks of the settings alone; portChecks tries what responds at these URLs. */
export const originChecks = {
  origins({ settings }) {
    const { PUBLIC_URL: pages, FRONTEND_PUBLIC_API_URL: api, CORS_ORIGINS: allowed } = settings;
    const found = [];
    if (api !== pages && !allowed.includes(pages))
      found.push(
        broken(
          `pages at ${pages} call the API at ${api}, but CORS_ORIGINS does not allow ${pages}: browsers will block the calls`,
          `add ${pages} to CORS_ORIGINS, or give FRONTEND_PUBLIC_API_URL and PUBLIC_URL the same origin`,
        ),
      );
    if (pages.startsWith('https:') && api.startsWith('http:'))
      found.push(
        broken(
          `pages at ${pages} cannot call ${api}: browsers block http requests from https pages`,
          'give FRONTEND_PUBLIC_API_URL an https origin',
        ),
      );
    const plain = allowed.filter((origin) => origin.startsWith('http:') && !isLoopback(new URL(origin).hostname));
    if (api.startsWith('https:') && plain.length > 0)
      found.push(
        advice(
          `CORS_ORIGINS allows ${plain.join(', ')}: an attacker who changes such a page in transit can call the API as its users`,
          'serve these pages over https and list their https origins',
        ),
      );
    if (!isLoopback(settings.HOST) && isLoopback(new URL(api).hostname))
      found.push(
        advice(
          `Weir listens on ${settings.HOST}, but the address shown to senders is ${api}, which is their own machine`,
          'set PUBLIC_URL to the address that senders and browsers use',
        ),
      );
    return found.length > 0 ? found : [ok(`pages and API are at ${api === pages ? api : `${pages}, ${api}`}`)];
  },
  /** Rate limits must count the sender's address, not a proxy's. */
  proxies({ settings: { TRUSTED_PROXIES: proxies, PUBLIC_URL: pages } }) {
    const allAddresses = proxies.filter((network) => network.endsWith('/0'));
    if (allAddresses.length > 0)
      return broken(
        `TRUSTED_PROXIES contains ${allAddresses.join(', ')}: any client can claim any address and evade its rate limit`,
        'list only the addresses of your proxies',
      );
    if (proxies.length > 0) return ok(`trusted: ${proxies.join(', ')}`);
    if (!pages.startsWith('https:')) return ok('no proxy is trusted; the client is the network peer');
    return advice(
      'PUBLIC_URL is https, so there is a proxy in front of Weir, but TRUSTED_PROXIES is empty: all senders share one rate limit',
      'set TRUSTED_PROXIES to the addresses of the proxy',
    );
  },
} satisfies CheckTable<{ settings: Addresses }>;

export const providerChecks = {
  /** Makes one request to the provider, within about 5 s. Only a sign-in shows whether the provider accepts Weir's client credentials. */
  async identity_provider({ settings }) {
    if (settings.AUTH_MODE === 'local') return ok('users sign in at Weir itself');
    const issuer = settings.OIDC_ISSUER!;
    try {
      const config = await discover({
        issuer,
        clientId: settings.OIDC_CLIENT_ID!,
        clientSecret: settings.OIDC_CLIENT_SECRET!,
      });
      const { code_challenge_methods_supported: methods } = config.serverMetadata();
      if (methods !== undefined && !methods.includes('S256'))
        return broken(`${issuer} does not offer PKCE with S256`, 'turn it on for this client at the provider');
      return ok(`${issuer} answers; the redirect URI to register there is ${redirectUri(settings.PUBLIC_URL)}`);
    } catch (error) {
      // The discovery URL (OpenID Connect Discovery 1.0, section 4.1).
      const address = `${issuer.replace(/\/$/, '')}/.well-known/openid-configuration`;
      return broken(
        `${issuer} is not usable: ${describeError(error)}`,
        `open ${address} from this machine: its issuer must equal OIDC_ISSUER exactly`,
      );
    }
  },
} satisfies CheckTable<{ settings: Settings }>;

/** Whether the two ports are free, used by Weir or used by another program, and whether Weir responds at its public URL. */
export const portChecks = {
  async port({ settings: { HOST, PORT, FRONTEND_PUBLIC_API_URL: url } }) {
    const { isOurs, found } = await tryPort('PORT', HOST, PORT, '/healthz', ALIVE);
    return isOurs ? [found, { name: REACH, ...(await tryUrl(url)) }] : found;
  },
  async metrics_port({ settings: { METRICS_HOST, METRICS_PORT } }) {
    return (await tryPort('METRICS_PORT', METRICS_HOST, METRICS_PORT, '/metrics', /^weir_build_info\{/m)).found;
  },
} satisfies CheckTable<{ settings: Settings }>;

/** The check of the public URL; there is one only while Weir runs. */
export const REACH = 'reach';
const ALIVE = /^\{"status":"ok"\}$/;
const ANSWER_TIMEOUT_MS = 3_000;

async function tryPort(setting: 'PORT' | 'METRICS_PORT', host: string, port: number, path: string, ours: RegExp) {
  try {
    await probePort(setting, host, port);
    return { isOurs: false, found: ok(`${port} on ${host} is free`) };
  } catch (error) {
    if (await answersWith(ours, localUrl(host, port) + path))
      return { isOurs: true, found: ok(`${port} on ${host} is used by Weir itself`) };
    if (!(error instanceof OperatorError)) throw error;
    return { isOurs: false, found: brokenBy(error, `set ${setting}`) };
  }
}

/** Tests the URL from this machine, since doctor cannot test it from a browser's network. */
async function tryUrl(apiUrl: string) {
  if (await answersWith(ALIVE, `${apiUrl}/healthz`)) return ok(`Weir answers at ${apiUrl} from this machine`);
  return advice(
    `Weir runs, but does not answer at ${apiUrl} from this machine`,
    'check the proxy and the host name, or set FRONTEND_PUBLIC_API_URL (or PUBLIC_URL) to the address that browsers and senders use',
  );
}

async function answersWith(wanted: RegExp, url: string): Promise<boolean> {
  try {
    const answer = await fetch(url, { signal: AbortSignal.timeout(ANSWER_TIMEOUT_MS), redirect: 'error' });
    return answer.status === 200 && wanted.test(await answer.text());
  } catch {
    return false;
  }
}

/** The store of the request counters responds, has free memory, and evicts the right keys. */
export const rateLimitChecks = {
  /** Connects, runs the script once, and disconnects, within about 2 s. */
  async rate_limit({ settings }) {
    const { WORKERS: processes, sharedStoreUrls: urls } = settings;
    if (settings.RATE_LIMIT_BACKEND === 'memory') {
      if (processes === 1) return ok('counted in memory, by one process');
      return advice(
        `each of ${processes} processes counts separately: a client may get up to ${processes} times the limit`,
        'limit at a proxy as well, or share the counters: RATE_LIMIT_BACKEND=shared and RATE_LIMIT_SHARED_URL',
      );
    }
    try {
      const limiter = await connectSharedLimiter({ urls, requireAtStart: true, report: { began() {}, ended() {} } });
      await limiter.close();
      const nodes = (await readMemories(urls)).map(judgeMemory).filter((found) => found !== null);
      const worst = nodes.find(({ state }) => state === 'problem') ?? nodes[0];
      return worst ?? ok(`all processes share the counters of the store at ${addressesOf(urls)}`);
    } catch (error) {
      if (!(error instanceof SharedStoreError)) throw error;
      return brokenBy(error, 'start it, or correct RATE_LIMIT_SHARED_URL');
    }
  },
} satisfies CheckTable<{ settings: Settings }>;

/** Above this share of maxmemory, a flood of new clients may fill the rest. */
const USED_RATIO_MAX = 0.8;
/** Evicts the counters that expire soonest, so the least significant counts are lost. */
const RIGHT_POLICY = 'volatile-ttl';
const SET_POLICY = `maxmemory-policy ${RIGHT_POLICY} in redis.conf (at once: redis-cli config set maxmemory-policy ${RIGHT_POLICY})`;

interface StoreMemory {
  usedBytes: number;
  /** 0 means no limit. */
  maxBytes: number;
  policy: string;
}

/** None when memory cannot be read: a Redis user may lack the INFO command. */
async function readMemories(urls: readonly string[]): Promise<StoreMemory[]> {
  const store = openStore(urls).on('error', () => {});
  try {
    await store.connect();
    return await Promise.all(mastersOf(store).map(readMemory));
  } catch {
    return [];
  } finally {
    store.disconnect();
  }
}

/** Null: nothing to report. */
function judgeMemory({ usedBytes, maxBytes, policy }: StoreMemory) {
  // Without a limit Redis evicts nothing, whatever the policy.
  if (maxBytes === 0) return null;
  const memory = `Redis uses ${inMib(usedBytes)} of ${inMib(maxBytes)}`;
  const isLow = usedBytes > maxBytes * USED_RATIO_MAX;
  if (policy !== 'noeviction' && policy !== RIGHT_POLICY)
    return advice(
      `the policy of Redis is ${policy}: when memory runs out, it drops counters of clients that are at their limit`,
      `set ${SET_POLICY}: it drops the counters that expire soonest first`,
    );
  if (!isLow) return null;
  if (policy === 'noeviction')
    return broken(
      `${memory}, and its policy is noeviction: when it is full, it refuses counters, and requests pass without a limit`,
      `raise maxmemory, and set ${SET_POLICY}`,
    );
  return advice(
    `${memory}: it will soon drop counters that are about to expire, and their clients can exceed the limit`,
    'raise maxmemory',
  );
}

async function readMemory(node: Redis): Promise<StoreMemory> {
  const text = await node.info('memory');
  const field = (name: string) => new RegExp(`^${name}:(\\S+)`, 'm').exec(text)?.[1];
  return {
    usedBytes: Number(field('used_memory')),
    maxBytes: Number(field('maxmemory') ?? 0),
    policy: field('maxmemory_policy') ?? 'noeviction',
  };
}

function mastersOf(store: CounterStore): Redis[] {
  return store instanceof Cluster ? store.nodes('master') : [store as Redis];
}
