/** Checks the store of the request counters: that it responds and has free memory. */

import { connectSharedLimiter, SharedStoreError } from '../ratelimit/shared.ts';
import { places } from '../ratelimit/store.ts';
import type { Settings } from '../settings/read.ts';
import { advice, type Check, ok, problem } from './check.ts';
import { checkStoreMemory } from './store-memory.ts';

/** Connects, runs the script once, and disconnects, within about 2 s. */
export async function checkRateLimit(settings: Settings): Promise<Check> {
  const name = 'rate_limit';
  const { WORKERS: processes, sharedStoreUrls: urls } = settings;
  if (settings.RATE_LIMIT_BACKEND === 'memory') {
    if (processes === 1) return ok(name, 'counted in memory, by one process');
    return advice(
      name,
      `each of ${processes} processes counts separately: a client may get up to ${processes} times the limit`,
      'limit at a proxy as well, or share the counters: RATE_LIMIT_BACKEND=shared and RATE_LIMIT_SHARED_URL',
    );
  }
  try {
    const limiter = await connectSharedLimiter({ urls, requireAtStart: true, warn: () => {} });
    await limiter.close();
    const memory = await checkStoreMemory(name, urls);
    return memory ?? ok(name, `all processes share the counters of the store at ${places(urls)}`);
  } catch (error) {
    if (!(error instanceof SharedStoreError)) throw error;
    const [finding, fix] = error.message.split(/\. (?=Start it)/);
    return problem(name, finding!, fix ?? 'start it, or correct RATE_LIMIT_SHARED_URL');
  }
}
