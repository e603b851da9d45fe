/** Checks the store of the request counters: that it responds, has free memory, and evicts the right keys. */

import { Cluster, type Redis } from 'ioredis';
import { connectSharedLimiter, SharedStoreError } from '../../base/ratelimit/shared.ts';
import { addressesOf, type CounterStore, openStore } from '../../base/ratelimit/store.ts';
import type { Settings } from '../../base/settings/read.ts';
import { advice, type CheckTable, ok, problem, problemOf } from '../../model/check.ts';

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
      return problemOf(error, 'start it, or correct RATE_LIMIT_SHARED_URL');
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
  const memory = `Redis uses ${mebibytes(usedBytes)} of ${mebibytes(maxBytes)} MiB`;
  const isLow = usedBytes > maxBytes * USED_RATIO_MAX;
  if (policy !== 'noeviction' && policy !== RIGHT_POLICY)
    return advice(
      `the policy of Redis is ${policy}: when memory runs out, it drops counters of clients that are at their limit`,
      `set ${SET_POLICY}: it drops the counters that expire soonest first`,
    );
  if (!isLow) return null;
  if (policy === 'noeviction')
    return problem(
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

function mebibytes(bytes: number): string {
  return (bytes / 2 ** 20).toFixed(1);
}
