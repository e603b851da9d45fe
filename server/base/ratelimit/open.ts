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
  restoreStringMethods();
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

/** V8 acts on a load only after a function has run often enough to collect feedback; 20 calls were enough on Node 20 and 24. */
const LOADS = 1_000;

/**
 * A class of ioredis extends String. V8 then turns String.prototype into a dictionary, until a member of a String object is read, and each
 * method call and `length` of a string is a look-up: 2 of 38 us of the event loop for each request (bench/NOTES.md).
 */
export function restoreStringMethods(): void {
  const text = new String('');
  for (let i = 0; i < LOADS; i++) methodOf(text);
}

function methodOf(text: Pick<string, 'charCodeAt'>): unknown {
  return text.charCodeAt;
}
