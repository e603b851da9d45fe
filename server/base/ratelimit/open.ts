/** Opens the rate limiter that the settings select. */
import type { Settings } from '../settings/read.ts';
import type { Policy, RateLimiter } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';

/**
 * @param log gets the start and the end of an outage of the shared store.
 * @param requireStore true (the primary's first start): rejects with SharedStoreError if the shared store does not answer.
 * False: starts degraded and recovers automatically.
 * @param onUncounted called for each request allowed while the shared store was unavailable.
 */
export async function openLimiter(
  settings: Settings,
  log: (event: 'rate_limit_store' | 'rate_limit_store_up', fields: Record<string, unknown>) => void,
  { requireStore, onUncounted }: { requireStore: boolean; onUncounted?: (policy: Policy) => void },
): Promise<RateLimiter> {
  if (settings.RATE_LIMIT_BACKEND === 'memory')
    return new MemoryLimiter(settings.RATE_LIMIT_KEYS_MAX, () => performance.now());
  // Loaded for shared counters only: ioredis is the largest package of a serving process.
  const { connectSharedLimiter } = await import('./shared.ts');
  return connectSharedLimiter({
    urls: settings.sharedStoreUrls,
    requireAtStart: requireStore,
    ...(onUncounted === undefined ? {} : { onUncounted }),
    report: {
      began: (start) => log('rate_limit_store', start),
      ended: (end) => log('rate_limit_store_up', { ...end }),
    },
  });
}
