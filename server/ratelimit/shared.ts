/**
 * Rate-limit counters in Redis, shared by all processes and machines (RATE_LIMIT_BACKEND=shared).
 *
 * One address is a Redis, several are seeds of a Redis Cluster. A take is one call of window.lua on one key; the calls of
 * one turn of the event loop go out as one pipeline (in a cluster one a node), by ioredis's auto-pipelining.
 */
import { readFileSync } from 'node:fs';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { decide } from '../core/window.ts';
import { Breaker, type Warn } from './breaker.ts';
import type { Decision, Policy, RateLimiter } from './limiter.ts';

/** Bound on the check at start, on connecting, and on the silence after which a connection is given up. */
const CONNECT_TIMEOUT_MS = 2000;
const RECONNECT_MAX_MS = 1000;
/** A probe writes, since a read-only replica would answer anything else; its key is gone two seconds later. */
const PROBE = { key: 'probe', max: 1_000_000, windowMs: 1000 };
/** Slots that the check at start writes to. */
const CHECK_KEYS = 16;

export interface SharedLimiterOptions {
  /** redis:// or rediss:// addresses (RATE_LIMIT_SHARED_URL, else RQ_SHARED_URL), at least one. */
  urls: readonly string[];
  /** Milliseconds, monotonic, for time-outs alone: requests are counted by the store's clock. */
  now?: () => number;
  /** Called at most once a second while the store is away; never given an address's user, password or query. */
  warn: Warn;
  /** True: throws when the store is away now. False: begins degraded and recovers by itself. */
  requireAtStart: boolean;
}

/** The store cannot be used; the message names the setting and the host, and is free of secrets. */
export class SharedStoreError extends Error {}

/** A client with our script on it; Redis and Cluster share this much. */
type Store = (Redis | Cluster) & {
  /** previous, current, elapsed milliseconds. */
  weirTake(key: string, max: number, windowMs: number): Promise<[number, number, number]>;
};

/** Connects and checks: answers PING, runs the script, takes a write; all within 2 s. Throws SharedStoreError. */
export async function connectSharedLimiter(options: SharedLimiterOptions): Promise<RateLimiter> {
  const store = openStore(options.urls);
  // Without a listener ioredis prints its errors, addresses and all. They also say best why a connection failed: what
  // connect() itself rejects with is mostly that it was closed.
  let told = LOST;
  const listen = (error: unknown) => {
    const cause = causeOf(error);
    if (cause !== LOST) told = cause;
  };
  store.on('error', listen).on('node error', listen);
  const limiter = new SharedLimiter(store, options.warn, options.now ?? (() => performance.now()));
  const cause = await within(CONNECT_TIMEOUT_MS, check(store)).then(
    (answered) => (answered ? null : `no answer within ${CONNECT_TIMEOUT_MS} ms`),
    (error) => (told === LOST ? causeOf(error) : told),
  );
  if (cause === null) return limiter;
  if (!options.requireAtStart) {
    limiter.degrade(cause);
    return limiter;
  }
  await limiter.close();
  throw new SharedStoreError(
    `RATE_LIMIT_SHARED_URL (or RQ_SHARED_URL): the store at ${places(options.urls)} cannot be used: ${cause}. ` +
      'Start it, correct the address, or let each process count for itself with RATE_LIMIT_BACKEND=memory',
  );
}

class SharedLimiter implements RateLimiter {
  readonly #store: Store;
  readonly #breaker: Breaker;
  constructor(store: Store, warn: Warn, now: () => number) {
    this.#store = store;
    // In the slot of the call that failed, so that a cluster's hung node is asked and not a neighbour.
    const probe = (key: string) => this.#ask(`${slotKey(key)}:${PROBE.key}`, PROBE.max, PROBE.windowMs);
    this.#breaker = new Breaker({ now, warn, causeOf, probe });
  }

  take(key: string, policy: Policy): Decision | Promise<Decision> {
    if (this.#breaker.isOpen) {
      this.#breaker.letThrough();
      return uncounted(policy);
    }
    return this.#count(key, policy);
  }

  health(): 'ok' | 'degraded' {
    return this.#breaker.isOpen ? 'degraded' : 'ok';
  }

  async close(): Promise<void> {
    this.#breaker.end();
    this.#store.disconnect();
  }

  degrade(cause: string): void {
    this.#breaker.open(cause, PROBE.key);
  }

  async #count(key: string, policy: Policy): Promise<Decision> {
    const storeKey = `${slotKey(key)}:${policy.windowSeconds}`;
    const counts = await this.#breaker.run(key, () => this.#ask(storeKey, policy.max, policy.windowSeconds * 1000));
    if (counts === null) return uncounted(policy);
    const { allowed, remaining, resetMs } = decide(counts[0], counts[1], counts[2], policy);
    return { allowed, remaining, resetSeconds: Math.ceil(resetMs / 1000) };
  }

  /** Rejects at once without a connection: ioredis in cluster mode would hold the call until there is one. */
  async #ask(storeKey: string, max: number, windowMs: number): Promise<[number, number, number]> {
    if (this.#store.status !== 'ready') throw new Error('not connected');
    return this.#store.weirTake(storeKey, max, windowMs);
  }
}

/** Braces: all that is kept for one key, its probe too, lies in one slot of a cluster. */
function slotKey(key: string): string {
  return `weir:limit:{${key}}`;
}

function uncounted(policy: Policy): Decision {
  return { allowed: true, remaining: policy.max, resetSeconds: 1 };
}

/** A client that keeps nothing back for later: a call goes out now or fails now, and is never sent twice. */
function openStore(urls: readonly string[]): Store {
  const nodes = urls.map(readAddress);
  const first = nodes[0];
  if (first === undefined) throw new Error('connectSharedLimiter needs at least one address');
  const { host: _host, port: _port, db = 0, ...credentials } = first;
  const common = {
    ...credentials,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: CONNECT_TIMEOUT_MS,
    maxLoadingRetryTime: RECONNECT_MAX_MS,
  };
  const script = {
    weirTake: { lua: readFileSync(new URL('./window.lua', import.meta.url), 'utf8'), numberOfKeys: 1 },
  };
  const own = { lazyConnect: true, enableOfflineQueue: false, enableAutoPipelining: true, scripts: script };
  const retryMs = (times: number) => Math.min(50 * 2 ** Math.min(times, 10), RECONNECT_MAX_MS);
  if (nodes.length === 1)
    return new Redis({ ...first, ...common, ...own, db, retryStrategy: retryMs }) as unknown as Store;
  const seeds = nodes.map(({ host, port }) => ({ host, port }));
  // With TLS, names must stay names, or no certificate fits.
  const naming = first.tls
    ? { dnsLookup: (name: string, done: (error: null, name: string) => void) => done(null, name) }
    : {};
  return new Cluster(seeds, {
    ...own,
    ...naming,
    redisOptions: common,
    clusterRetryStrategy: retryMs,
  }) as unknown as Store;
}

type Address = { host: string; port: number } & Pick<RedisOptions, 'username' | 'password' | 'db' | 'tls'>;

function readAddress(address: string): Address {
  const url = new URL(address);
  const db = Number(url.pathname.slice(1));
  return {
    host: url.hostname.replace(/^\[|\]$/g, ''),
    port: Number(url.port || 6379),
    ...(url.username !== '' && { username: decodeURIComponent(url.username) }),
    ...(url.password !== '' && { password: decodeURIComponent(url.password) }),
    ...(Number.isInteger(db) && db > 0 && { db }),
    ...(url.protocol === 'rediss:' && { tls: {} }),
  };
}

/** host:port of each address, and nothing else of it. */
function places(urls: readonly string[]): string {
  return urls
    .map((address) => new URL(address))
    .map((url) => `${url.hostname}:${url.port || 6379}`)
    .join(', ');
}

/** Every master answers, and counters can be written wherever they fall: a lone node of a cluster would take only some. */
async function check(store: Store): Promise<true> {
  await store.connect();
  const masters = store instanceof Cluster ? store.nodes('master') : [store];
  await Promise.all(masters.map((node) => node.ping()));
  const keys = Array.from({ length: CHECK_KEYS }, (_, index) => `${slotKey(`start ${index}`)}:${PROBE.key}`);
  await Promise.all(keys.map((key) => store.weirTake(key, PROBE.max, PROBE.windowMs)));
  return true;
}

/** Undefined when `work` is not settled in time; what comes of it later is dropped. */
async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}

/** Also all that ioredis says of a cluster of which no node can be reached. */
const LOST = 'there is no connection';

const causes: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
  ENOTFOUND: 'its host name is unknown (ENOTFOUND)',
  NOAUTH: 'it wants a password and the address has none (NOAUTH)',
  WRONGPASS: 'it refuses the user or password of the address (WRONGPASS)',
  NOPERM: 'its user may not do what is needed (NOPERM)',
  LOADING: 'it is still loading its data (LOADING)',
  MOVED: 'it is one node of a Redis Cluster: give the addresses of several, with commas between them (MOVED)',
  ERR: 'it answers with an error; several addresses are taken for the nodes of a Redis Cluster (ERR)',
  READONLY: 'it is a read-only replica (READONLY)',
};

/** An error in words of ours. Messages of ioredis and of Node may carry addresses and credentials: only codes are passed on. */
function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'an unknown error';
  const { code, lastNodeError } = error as { code?: unknown; lastNodeError?: unknown };
  if (lastNodeError !== undefined && lastNodeError !== null) return causeOf(lastNodeError);
  const answered = error.name === 'ReplyError' ? /^[A-Z]{2,20}\b/.exec(error.message)?.[0] : undefined;
  const known = typeof code === 'string' ? code : answered;
  return known === undefined ? LOST : (causes[known] ?? known);
}
