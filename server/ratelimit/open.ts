/** Opens the rate limiter that the settings select. */
import type { Settings } from '../settings/read.ts';
import type { Policy, RateLimiter } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';
import { connectSharedLimiter } from './shared.ts';

/**
 * @param warn logs a failure of the shared store; gets `reason` and further fields.
 * @param requireStore true (the primary's first start): rejects with SharedStoreError if the shared store does not answer.
 * False: starts degraded and recovers automatically.
 * @param onUncounted called for each request allowed while the shared store was unavailable.
 */
export async function openLimiter(
  settings: Settings,
  warn: (fields: Record<string, unknown>) => void,
  { requireStore, onUncounted }: { requireStore: boolean; onUncounted?: (policy: Policy) => void },
): Promise<RateLimiter> {
  if (settings.RATE_LIMIT_BACKEND === 'memory')
    return new MemoryLimiter(settings.RATE_LIMIT_KEYS_MAX, () => performance.now());
  return connectSharedLimiter({
    urls: settings.sharedStoreUrls,
    requireAtStart: requireStore,
    ...(onUncounted === undefined ? {} : { onUncounted }),
    warn: (reason, fields) => warn({ reason, ...fields }),
  });
}
