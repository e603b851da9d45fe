/**
 * Rate-limit counters in Redis, shared by all processes and machines (RATE_LIMIT_BACKEND=shared).
 *
 * One address is a Redis, several are seeds of a Redis Cluster. A take is a call of window.lua on one key; the calls of one
 * turn of the event loop go out as one pipeline (in a cluster one a node), by ioredis's auto-pipelining.
 *
 * A call costs Redis about 10 us and this process as much, so that some two thousand at once would use up the budget of
 * the breaker, and whoever floods would switch the limit off for all. Two things keep a flood from one address away from
 * the store: requests for a key that is being asked for wait and go together as one call (20,000 at once: two calls), and
 * a refusal is remembered here until its time is over. Neither changes an answer, since others can but lengthen a refusal;
 * only a counter that somebody deletes in Redis stays refused here for the time that was told.
 */
import { Cluster } from 'ioredis';
import { Breaker, type Warn } from './breaker.ts';
import type { Decision, Policy, RateLimiter } from './limiter.ts';
import { CONNECT_TIMEOUT_MS, causeOf, LOST, openStore, places, type Store } from './store.ts';
import { decide } from './window.ts';

/** A probe writes, since a read-only replica would answer anything else; its key is gone two seconds later. */
const PROBE = { key: 'probe', max: 1_000_000_000, windowMs: 1000 };
/** Slots that the check at start writes to. */
const CHECK_KEYS = 16;
/** Refusals remembered; when there are more, all are forgotten, which costs a call each. */
const REFUSALS_MAX = 10_000;

interface SharedLimiterOptions {
  /** redis:// or rediss:// addresses (RATE_LIMIT_SHARED_URL, else RQ_SHARED_URL), at least one. */
  urls: readonly string[];
  /** Milliseconds, monotonic, for time-outs alone: requests are counted by the store's clock. */
  now?: () => number;
  /** Called at most once a second while the store is away; never given an address's user, password or query. */
  warn: Warn;
  /** A request was allowed, and counted nowhere. */
  onUncounted?: (policy: Policy) => void;
  /** True: throws when the store is away now. False: begins degraded and recovers by itself. */
  requireAtStart: boolean;
}

/** The store cannot be used; the message names the setting and the host, and is free of secrets. */
export class SharedStoreError extends Error {}

/** Connects and checks: answers PING, runs the script, takes a write; all within 2 s. Throws SharedStoreError. */
export async function connectSharedLimiter(options: SharedLimiterOptions): Promise<RateLimiter> {
  const store = openStore(options.urls);
  // Without a listener ioredis prints its errors, addresses and all. They also say best why a connection failed: what
  // connect() itself rejects with is mostly that it was closed.
  let told = LOST;
  const listen = (error: unknown) => {
    const cause = causeOf(error);
    if (cause !== LOST) told = cause;
  };
  store.on('error', listen).on('node error', listen);
  const limiter = new SharedLimiter(store, options);
  const cause = await within(CONNECT_TIMEOUT_MS, check(store)).then(
    (answered) => (answered ? null : `no answer within ${CONNECT_TIMEOUT_MS} ms`),
    (error) => (told === LOST ? causeOf(error) : told),
  );
  if (cause === null) return limiter;
  if (!options.requireAtStart) {
    limiter.degrade(cause);
    return limiter;
  }
  await limiter.close();
  throw new SharedStoreError(
    `RATE_LIMIT_SHARED_URL (or RQ_SHARED_URL): the store at ${places(options.urls)} cannot be used: ${cause}. ` +
      'Start it, correct the address, or let each process count for itself with RATE_LIMIT_BACKEND=memory',
  );
}

interface Waiter {
  resolve: (decision: Decision) => void;
  reject: (error: unknown) => void;
}

class SharedLimiter implements RateLimiter {
  readonly #store: Store;
  readonly #now: () => number;
  readonly #onUncounted: (policy: Policy) => void;
  readonly #breaker: Breaker;
  /** Counters that are being asked for, each with those who wait for the next call. */
  readonly #asking = new Map<string, Waiter[]>();
  /** Counters that are full, each with the time (of `now`) at which asking makes sense again. */
  readonly #refusedUntilMs = new Map<string, number>();

  constructor(store: Store, { warn, now = () => performance.now(), onUncounted = () => {} }: SharedLimiterOptions) {
    this.#store = store;
    this.#onUncounted = onUncounted;
    this.#now = now;
    // In the slot of the call that failed, so that a cluster's hung node is asked and not a neighbour.
    const probe = (key: string) => this.#ask(`${slotKey(key)}:${PROBE.key}`, PROBE.max, PROBE.windowMs, 1);
    this.#breaker = new Breaker({ now, warn, causeOf, probe });
  }

  take(key: string, policy: Policy): Decision | Promise<Decision> {
    if (this.#breaker.isOpen) {
      this.#breaker.letThrough();
      return this.#uncounted(policy);
    }
    const id = `${policy.max} ${slotKey(key)}:${policy.windowSeconds}`;
    return this.#knownRefusal(id) ?? this.#count(key, id, policy);
  }

  health(): 'ok' | 'degraded' {
    return this.#breaker.isOpen ? 'degraded' : 'ok';
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

  #knownRefusal(id: string): Decision | undefined {
    const untilMs = this.#refusedUntilMs.get(id);
    if (untilMs === undefined) return undefined;
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

  /** One call for `first`, then one for all who came meanwhile, and so on until nobody waits. Never rejects. */
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

  /** The requests of one call, in their order: the script counted as many of them as fit. */
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

  /** From the moment of asking, which is before the store's: never longer than the store itself would refuse. */
  #remember(id: string, untilMs: number): void {
    if (this.#refusedUntilMs.size >= REFUSALS_MAX) this.#refusedUntilMs.clear();
    this.#refusedUntilMs.set(id, untilMs);
  }

  /** Rejects at once without a connection: ioredis in cluster mode would hold the call until there is one. */
  async #ask(storeKey: string, max: number, windowMs: number, wanted: number): Promise<[number, number, number]> {
    if (this.#store.status !== 'ready') throw new Error('not connected');
    return this.#store.weirTake(storeKey, max, windowMs, wanted);
  }
}

/** Braces: all that is kept for one key, its probe too, lies in one slot of a cluster. */
function slotKey(key: string): string {
  return `weir:limit:{${key}}`;
}

/** Every master answers, and counters can be written wherever they fall: a lone node of a cluster would take only some. */
async function check(store: Store): Promise<true> {
  await store.connect();
  const masters = store instanceof Cluster ? store.nodes('master') : [store];
  await Promise.all(masters.map((node) => node.ping()));
  const keys = Array.from({ length: CHECK_KEYS }, (_, index) => `${slotKey(`start ${index}`)}:${PROBE.key}`);
  await Promise.all(keys.map((key) => store.weirTake(key, PROBE.max, PROBE.windowMs, 1)));
  return true;
}

/** Undefined when `work` is not settled in time; what comes of it later is dropped. */
async function within<T>(timeoutMs: number, work: Promise<T>): Promise<T | undefined> {
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<undefined>((resolve) => {
    timer = setTimeout(resolve, timeoutMs, undefined);
  });
  return Promise.race([work, late]).finally(() => clearTimeout(timer));
}
