/** The Redis or Redis Cluster of the shared counters: addresses, connection and error messages. */
import { readFileSync } from 'node:fs';
import { Cluster, Redis, type RedisOptions } from 'ioredis';
import { builtFile } from '../files/build.ts';

/** Time limit of connecting. A connection that is silent for this long is closed. */
export const CONNECT_TIMEOUT_MS = 2000;
const RECONNECT_MAX_MS = 1000;

/** A Redis or Cluster client with the window script. */
export type CounterStore = (Redis | Cluster) & {
  /** Counts up to `wanted` requests. Returns previous, current (without these requests) and elapsed milliseconds. */
  weirTake(key: string, max: number, windowMs: number, wanted: number): Promise<[number, number, number]>;
};

/** Opens a client without queues: a call is sent or fails immediately, and is never sent twice. */
export function openStore(urls: readonly string[]): CounterStore {
  const nodes = urls.map(readAddress);
  const first = nodes[0];
  if (first === undefined) throw new Error('openStore needs at least one address');
  const { host: _host, port: _port, db = 0, ...credentials } = first;
  const common = {
    ...credentials,
    maxRetriesPerRequest: 0,
    autoResendUnfulfilledCommands: false,
    connectTimeout: CONNECT_TIMEOUT_MS,
    socketTimeout: CONNECT_TIMEOUT_MS,
    commandTimeout: CONNECT_TIMEOUT_MS,
    maxLoadingRetryTime: RECONNECT_MAX_MS,
  };
  const script = {
    weirTake: { lua: readFileSync(builtFile('server/base/ratelimit/window.lua'), 'utf8'), numberOfKeys: 1 },
  };
  const own = { lazyConnect: true, enableOfflineQueue: false, enableAutoPipelining: true, scripts: script };
  const retryMs = (times: number) => Math.min(50 * 2 ** Math.min(times, 10), RECONNECT_MAX_MS);
  if (nodes.length === 1)
    return new Redis({ ...first, ...common, ...own, db, retryStrategy: retryMs }) as unknown as CounterStore;
  const seeds = nodes.map(({ host, port }) => ({ host, port }));
  // With TLS, keep host names: certificates do not match addresses.
  const naming = first.tls
    ? { dnsLookup: (name: string, done: (error: null, name: string) => void) => done(null, name) }
    : {};
  return new Cluster(seeds, {
    ...own,
    ...naming,
    redisOptions: common,
    clusterRetryStrategy: retryMs,
  }) as unknown as CounterStore;
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

/** The host and port of each URL, for display: without credentials. */
export function addressesOf(urls: readonly string[]): string {
  return urls
    .map((url) => new URL(url))
    .map((url) => `${url.hostname}:${url.port || 6379}`)
    .join(', ');
}

/** Also the only cause that ioredis reports for a cluster with no reachable node. */
export const LOST = 'there is no connection';

const causes: Record<string, string> = {
  ECONNREFUSED: 'nothing listens there (ECONNREFUSED)',
  ENOTFOUND: 'its host name is unknown (ENOTFOUND)',
  NOAUTH: 'it requires a password, and the address has none (NOAUTH)',
  WRONGPASS: 'it refuses the user or password of the address (WRONGPASS)',
  NOPERM: 'its user lacks a permission that Weir needs (NOPERM)',
  LOADING: 'it is still loading its data (LOADING)',
  MOVED: 'it is one node of a Redis Cluster: give the addresses of several nodes, separated by commas (MOVED)',
  ERR: 'it returns an error; several addresses must be nodes of one Redis Cluster (ERR)',
  READONLY: 'it is a read-only replica (READONLY)',
  OOM: 'its memory is full, and its policy evicts nothing (OOM)',
};

/** Fixes of the causes that have their own: the store runs, and its address is right. */
const fixes: Record<string, string> = {
  LOADING: 'wait until it has loaded its data',
  READONLY: 'give the address of its master',
  OOM: 'raise maxmemory in redis.conf, and set maxmemory-policy volatile-ttl, which evicts the counters that expire soonest',
};

/** How to fix what causeOf described. */
export function fixOf(cause: string): string {
  return (
    fixes[/\((\w+)\)$/.exec(cause)?.[1] ?? ''] ??
    'start it, correct the address, or let each process count for itself with RATE_LIMIT_BACKEND=memory'
  );
}

/** Describes an error. Messages of ioredis and Node may contain addresses and credentials, so only their codes are used. */
export function causeOf(error: unknown): string {
  if (!(error instanceof Error)) return 'an unknown error';
  const { code, lastNodeError } = error as { code?: unknown; lastNodeError?: unknown };
  if (lastNodeError !== undefined && lastNodeError !== null) return causeOf(lastNodeError);
  const answered = error.name === 'ReplyError' ? /^[A-Z]{2,20}\b/.exec(error.message)?.[0] : undefined;
  const known = typeof code === 'string' ? code : answered;
  return known === undefined ? LOST : (causes[known] ?? known);
}
