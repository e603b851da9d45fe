/**
 * Rate-limit counters in Redis, shared by all processes and machines (RATE_LIMIT_BACKEND=shared). One address is a Redis; several are seeds
 * of a Redis Cluster. A take calls window.lua on one key; ioredis's auto-pipelining sends the calls of one event-loop turn together. A call
 * costs about 10 us in Redis and here, so that one flooding client could exceed the breaker's budget and disable the limit for all. So
 * requests for a key with a call in progress share the next call, and a refusal is cached until it expires: other requests can only lengthen
 * it. If a counter is deleted in Redis, its key stays refused here for the time already reported.
 */
import { Cluster } from 'ioredis';
import { OperatorError } from '../../model/fault.ts';
import { within } from '../time/every.ts';
import { Breaker, type OutageReport } from './breaker.ts';
import type { Decision, Policy, RateLimiter } from './limiter.ts';
import { addressesOf, CONNECT_TIMEOUT_MS, type CounterStore, causeOf, fixOf, LOST, openStore } from './store.ts';
import { decide } from './window.ts';

/** A probe writes, because a read-only replica answers everything else. Its key expires after two seconds. */
const PROBE = { key: 'probe', max: 1_000_000_000, windowMs: 1000 };
/** Keys, in different slots, that the check at start writes to. */
const CHECK_KEYS = 16;
/** Maximum cached refusals. When full, the cache is cleared, which costs one call per key. */
const REFUSALS_MAX = 10_000;

interface SharedLimiterOptions {
  /** redis:// or rediss:// addresses (RATE_LIMIT_SHARED_URL, else RQ_SHARED_URL), at least one. */
  urls: readonly string[];
  /** Monotonic clock in milliseconds, for timeouts only. The store's clock counts requests. */
  now?: () => number;
  /** Never gets the user, password or query of an address. */
  report: OutageReport;
  /** How long the store must be available until an outage is over; by default 10 s. */
  calmMs?: number;
  /** Called for each request that was allowed without being counted. */
  onUncounted?: (policy: Policy) => void;
  /** True: throws if the store is unavailable at start. False: starts degraded and recovers automatically. */
  requireAtStart: boolean;
}

/** Thrown if the store cannot be used. The message names the setting and the host and contains no secrets. */
export class SharedStoreError extends OperatorError {}

/** Connects, and checks within 2 s that the store answers PING, runs the script and accepts writes. Throws SharedStoreError. */
export async function connectSharedLimiter(options: SharedLimiterOptions): Promise<RateLimiter> {
  const store = openStore(options.urls);
  // Without a listener, ioredis prints its errors with addresses. The error events also give the best cause of a failed connection:
  // connect() usually rejects only with "closed".
  let reported = LOST;
  const listen = (error: unknown) => {
    const cause = causeOf(error);
    if (cause !== LOST) reported = cause;
  };
  store.on('error', listen).on('node error', listen);
  const limiter = new SharedLimiter(store, options);
  const cause = await within(CONNECT_TIMEOUT_MS, check(store)).then(
    (answered) => (answered ? null : `no response within ${CONNECT_TIMEOUT_MS} ms`),
    (error) => (reported === LOST ? causeOf(error) : reported),
  );
  if (cause === null) return limiter;
  if (!options.requireAtStart) {
    limiter.degrade(cause);
    return limiter;
  }
  await limiter.close();
  throw new SharedStoreError(
    `RATE_LIMIT_SHARED_URL (or RQ_SHARED_URL): the store at ${addressesOf(options.urls)} cannot be used: ${cause}`,
    fixOf(cause),
  );
}

interface Waiter {
  resolve: (decision: Decision) => void;
  reject: (error: unknown) => void;
}

class SharedLimiter implements RateLimiter {
  readonly #store: CounterStore;
  readonly #now: () => number;
  readonly #onUncounted: (policy: Policy) => void;
  readonly #breaker: Breaker;
  /** Counters with a call in progress, each with the requests that wait for the next call. */
  readonly #asking = new Map<string, Waiter[]>();
  /** Full counters, each with the time (by `now`) at which its refusal expires. */
  readonly #refusedUntilMs = new Map<string, number>();

  constructor(
    store: CounterStore,
    { report, calmMs, now = () => performance.now(), onUncounted = () => {} }: SharedLimiterOptions,
  ) {
    this.#store = store;
    this.#onUncounted = onUncounted;
    this.#now = now;
    // Probe the slot of the failed call, so that the probe reaches the cluster node that hung.
    const probe = (key: string) => this.#ask(`${slotKey(key)}:${PROBE.key}`, PROBE.max, PROBE.windowMs, 1);
    this.#breaker = new Breaker({ now, report, causeOf, probe, ...(calmMs === undefined ? {} : { calmMs }) });
  }

  take(key: string, policy: Policy): Decision | Promise<Decision> {
    if (this.#breaker.isOpen) {
      this.#breaker.letThrough();
      return this.#uncounted(policy);
    }
    const id = `${policy.max} ${slotKey(key)}:${policy.windowSeconds}`;
    return this.#knownRefusal(id) ?? this.#count(key, id, policy);
  }

  /** A lost connection counts as degraded at once, before a call fails. */
  health(): 'ok' | 'degraded' {
    return this.#breaker.isOpen || !this.#isConnected ? 'degraded' : 'ok';
  }

  get #isConnected(): boolean {
    return this.#store.status === 'ready';
  }

  async close(): Promise<void> {
    this.#breaker.end();
    this.#store.disconnect();
  }

  degrade(cause: string): void {
    this.#breaker.open(cause, PROBE.key);
  }

  #uncounted(policy: Policy): Decision {
    this.#onUncounted(policy);
    return { allowed: true, remaining: policy.max, resetSeconds: 1 };
  }

  /** The cached refusal of a counter. Ignored without a connection: the call then fails and opens the breaker, which allows all requests. */
  #knownRefusal(id: string): Decision | undefined {
    const untilMs = this.#refusedUntilMs.get(id);
    if (untilMs === undefined || !this.#isConnected) return undefined;
    const leftMs = untilMs - this.#now();
    if (leftMs > 0) return { allowed: false, remaining: 0, resetSeconds: Math.ceil(leftMs / 1000) };
    this.#refusedUntilMs.delete(id);
    return undefined;
  }

  async #count(key: string, id: string, policy: Policy): Promise<Decision> {
    const work = () =>
      new Promise<Decision>((resolve, reject) => {
        const waiting = this.#asking.get(id);
        if (waiting !== undefined) waiting.push({ resolve, reject });
        else void this.#askFor({ resolve, reject }, id, policy);
      });
    return (await this.#breaker.run(key, work)) ?? this.#uncounted(policy);
  }

  /** Makes one call for `first`, then one for all requests that arrived during it, until no request waits. Never rejects. */
  async #askFor(first: Waiter, id: string, policy: Policy): Promise<void> {
    const storeKey = id.slice(id.indexOf(' ') + 1);
    let waiters = [first];
    while (waiters.length > 0) {
      const gathering: Waiter[] = [];
      this.#asking.set(id, gathering);
      const askedMs = this.#now();
      try {
        const counts = await this.#ask(storeKey, policy.max, policy.windowSeconds * 1000, waiters.length);
        this.#answer(waiters, id, policy, counts, askedMs);
        waiters = gathering;
      } catch (error) {
        for (const waiter of [...waiters, ...gathering]) waiter.reject(error);
        break;
      }
    }
    this.#asking.delete(id);
  }

  /** Answers the requests of one call in order. The script counted as many of them as fit. */
  #answer(waiters: Waiter[], id: string, policy: Policy, counts: [number, number, number], askedMs: number): void {
    const [previous, before, elapsedMs] = counts;
    let current = before;
    for (const { resolve } of waiters) {
      const { allowed, remaining, resetMs } = decide(previous, current, elapsedMs, policy);
      if (allowed) current += 1;
      else this.#remember(id, askedMs + resetMs);
      resolve({ allowed, remaining, resetSeconds: Math.ceil(resetMs / 1000) });
    }
  }

  /** Caches a refusal. Its time starts before the call, so it never lasts longer than the store would refuse. */
  #remember(id: string, untilMs: number): void {
    if (this.#refusedUntilMs.size >= REFUSALS_MAX) this.#refusedUntilMs.clear();
    this.#refusedUntilMs.set(id, untilMs);
  }

  /** Rejects immediately if not connected: in cluster mode, ioredis would queue the call until it has a connection. */
  async #ask(storeKey: string, max: number, windowMs: number, wanted: number): Promise<[number, number, number]> {
    if (!this.#isConnected) throw new Error('not connected');
    return this.#store.weirTake(storeKey, max, windowMs, wanted);
  }
}

/** Returns the store key. The braces (hash tag) put all data for one key, including its probe, in one slot of a cluster. */
function slotKey(key: string): string {
  return `weir:limit:{${key}}`;
}

/** Checks that every master answers and that counters in many slots can be written: a single cluster node accepts only some. */
async function check(store: CounterStore): Promise<true> {
  await store.connect();
  const masters = store instanceof Cluster ? store.nodes('master') : [store];
  await Promise.all(masters.map((node) => node.ping()));
  const keys = Array.from({ length: CHECK_KEYS }, (_, index) => `${slotKey(`start ${index}`)}:${PROBE.key}`);
  await Promise.all(keys.map((key) => store.weirTake(key, PROBE.max, PROBE.windowMs, 1)));
  return true;
}
