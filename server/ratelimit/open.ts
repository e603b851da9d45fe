/** The rate-limit store that the settings ask for. */
import type { Settings } from '../settings/read.ts';
import type { Policy, RateLimiter } from './limiter.ts';
import { MemoryLimiter } from './memory.ts';
import { connectSharedLimiter } from './shared.ts';

/**
 * @param warn the shared store fails; `reason` and what else is known, for the log.
 * @param requireStore true: rejects with SharedStoreError when the shared store does not answer (the primary's first
 * start); false: starts degraded and recovers by itself.
 * @param onUncounted a request was allowed while the shared store was away.
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
