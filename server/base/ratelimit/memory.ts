/** Rate-limit counters in the memory of one process (RATE_LIMIT_BACKEND=memory). */
import type { Decision, Policy, RateLimiter } from './limiter.ts';
import { decide } from './window.ts';

interface Counter {
  readonly key: string;
  bucket: number;
  previous: number;
  current: number;
  /** Values of the last take. `windowMs` gives the time at which the counter expires, `max` the share of the limit used. */
  windowMs: number;
  max: number;
}

/** Maximum counters examined to evict one. Bounds the work of one take. */
const EVICTION_CANDIDATES_MAX = 8;

/**
 * Counters for at most `keysMax` keys (RATE_LIMIT_KEYS_MAX), two numbers each. When all places are taken, a clock hand examines the next
 * eight counters, and evicts the first one whose windows have passed, or else the one that used the smallest share of its limit. A flood
 * from new addresses therefore evicts its own counters and not a blocked client. With 100,000 keys, a take costs 0.18 us (bench/NOTES.md).
 */
export class MemoryLimiter implements RateLimiter {
  readonly #keysMax: number;
  readonly #now: () => number;
  readonly #counters = new Map<string, Counter>();
  /** One long-lived iterator: a new one would skip over the holes of deleted entries each time. */
  #hand = this.#counters.values();

  /** @param now monotonic clock in milliseconds (`performance.now`). */
  constructor(keysMax: number, now: () => number) {
    this.#keysMax = keysMax;
    this.#now = now;
  }

  get size(): number {
    return this.#counters.size;
  }

  take(key: string, policy: Policy): Decision {
    const nowMs = this.#now();
    const windowMs = policy.windowSeconds * 1000;
    const bucket = Math.floor(nowMs / windowMs);
    const counter = this.#counters.get(key) ?? this.#add(key, bucket, nowMs);
    counter.windowMs = windowMs;
    counter.max = policy.max;
    if (counter.bucket !== bucket) {
      counter.previous = counter.bucket === bucket - 1 ? counter.current : 0;
      counter.current = 0;
      counter.bucket = bucket;
    }
    const { allowed, remaining, resetMs } = decide(
      counter.previous,
      counter.current,
      nowMs - bucket * windowMs,
      policy,
    );
    if (allowed) counter.current += 1;
    return { allowed, remaining, resetSeconds: Math.ceil(resetMs / 1000) };
  }

  health(): 'ok' {
    return 'ok';
  }

  async close(): Promise<void> {
    this.#counters.clear();
  }

  #add(key: string, bucket: number, nowMs: number): Counter {
    if (this.#counters.size >= this.#keysMax) this.#makeRoom(nowMs);
    const counter = { key, bucket, previous: 0, current: 0, windowMs: 0, max: 1 };
    this.#counters.set(key, counter);
    return counter;
  }

  #makeRoom(nowMs: number): void {
    let least = this.#next();
    for (let looked = 1; !hasPassed(least, nowMs) && looked < EVICTION_CANDIDATES_MAX; looked += 1) {
      const candidate = this.#next();
      if (hasPassed(candidate, nowMs) || usedShare(candidate) < usedShare(least)) least = candidate;
    }
    this.#counters.delete(least.key);
  }

  #next(): Counter {
    let step = this.#hand.next();
    if (step.done) {
      this.#hand = this.#counters.values();
      step = this.#hand.next();
    }
    if (step.done) throw new Error('no counter to evict: keysMax must be at least 1');
    return step.value;
  }
}

function hasPassed(counter: Counter, nowMs: number): boolean {
  return nowMs >= (counter.bucket + 2) * counter.windowMs;
}

function usedShare(counter: Counter): number {
  return (counter.previous + counter.current) / counter.max;
}
