/**
 * Decides which refused requests are diagnosed, and which of those are stored in any case. The others are stored only if they are the
 * first with their reason, webhook and minute, which only a diagnosis can tell.
 */
import { MINUTE_MS } from '../../base/time/durations.ts';

/** Requests that one process diagnoses: a body of 64 KiB takes at most 30 ms of CPU, 1 KiB takes 1 ms. */
const ALL_DIAGNOSED = { perSecond: 5, burst: 100 };
/** Requests of one webhook that are diagnosed: a minute with at most 60 rejections is covered. A busy webhook leaves room for others. */
const WEBHOOK_DIAGNOSED = { perSecond: 1, burst: 60 };
/** Requests of one webhook that are stored whatever their reason. */
const WEBHOOK_STORED = { perSecond: 1, burst: 10 };
/**
 * Reserve for the first request of a minute with its webhook, verdict and client address: the requests of one client must not hide those
 * of another.
 */
const RESERVE = { perSecond: 2, burst: 60 };
/** Buckets and first requests in memory. At this number all are cleared, which permits one more burst each. */
const KEYS_MAX = 10_000;

/** What happens with a refused request: `stored` in any case, `stored_if_first` of its reason, webhook and minute, or nothing. */
type SampleChoice = 'stored' | 'stored_if_first' | 'sampled_out';

export class SampleRates {
  readonly #all = new TokenBucket(ALL_DIAGNOSED);
  readonly #reserve = new TokenBucket(RESERVE);
  readonly #webhooks = new Map<string, { diagnosed: TokenBucket; stored: TokenBucket }>();
  readonly #seen = new Set<string>();
  #minute = Number.NEGATIVE_INFINITY;

  /**
   * @param verdict how the check of the signature ended
   * @param client address of the sender
   * @param nowMs monotonic clock, in milliseconds
   */
  choose(webhookId: string, verdict: string, client: string, nowMs: number): SampleChoice {
    const { diagnosed, stored } = this.#bucketsOf(webhookId);
    const isNew = this.#isNew(`${webhookId} ${verdict} ${client}`, nowMs);
    const taken = diagnosed.take(nowMs) && this.#all.take(nowMs);
    if (!taken && !(isNew && this.#reserve.take(nowMs))) return 'sampled_out';
    return taken && stored.take(nowMs) ? 'stored' : 'stored_if_first';
  }

  #isNew(key: string, nowMs: number): boolean {
    const minute = Math.floor(nowMs / MINUTE_MS);
    if (minute !== this.#minute || this.#seen.size >= KEYS_MAX) this.#seen.clear();
    this.#minute = minute;
    const isNew = !this.#seen.has(key);
    if (isNew) this.#seen.add(key);
    return isNew;
  }

  #bucketsOf(webhookId: string) {
    let buckets = this.#webhooks.get(webhookId);
    if (buckets === undefined) {
      if (this.#webhooks.size >= KEYS_MAX) this.#webhooks.clear();
      buckets = { diagnosed: new TokenBucket(WEBHOOK_DIAGNOSED), stored: new TokenBucket(WEBHOOK_STORED) };
      this.#webhooks.set(webhookId, buckets);
    }
    return buckets;
  }
}

/** Token bucket: `burst` tokens at once, then `perSecond` tokens per second. */
class TokenBucket {
  readonly #perSecond: number;
  readonly #burst: number;
  #tokens: number;
  #filledAtMs = Number.NEGATIVE_INFINITY;

  constructor({ perSecond, burst }: { perSecond: number; burst: number }) {
    this.#perSecond = perSecond;
    this.#burst = burst;
    this.#tokens = burst;
  }

  /** Takes a token; false if none is left. @param nowMs monotonic clock, in milliseconds. */
  take(nowMs: number): boolean {
    const filled = this.#tokens + ((nowMs - this.#filledAtMs) / 1000) * this.#perSecond;
    this.#tokens = Math.min(this.#burst, filled);
    this.#filledAtMs = nowMs;
    if (this.#tokens < 1) return false;
    this.#tokens--;
    return true;
  }
}
