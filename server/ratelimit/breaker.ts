/**
 * A circuit breaker for a store that requests can do without.
 *
 *                 a call fails or takes over BUDGET_MS
 *       closed --------------------------------------------> open: no call is made
 *          ^                                                  |
 *          '--- one probe answered within BUDGET_MS <---------'  a probe after 100 ms, 200 ms, .. 1 s, one at a time
 *
 * All calls under way when it opens are released together, and no request waits for a probe: a hung store costs 50 ms
 * once, not on every request.
 */

import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

/** How long a request may wait for the store. */
export const BUDGET_MS = 50;
const BACKOFF_MIN_MS = 100;
const BACKOFF_MAX_MS = 1000;
/** A probe without any answer for so long is given up. */
const PROBE_ABANDON_MS = 5000;
const WARNING_INTERVAL_MS = 1000;
/** A timer this late means that our own event loop was busy, not the store slow. */
const LOOP_LATE_MS = 10;

const LATE = `no answer within ${BUDGET_MS} ms`;
const AWAY = 'The rate-limit store is away: requests are allowed uncounted';
const BACK = 'The rate-limit store answers again: requests are counted';

/** `fields` are plain values for the log, free of secrets. */
export type Warn = (message: string, fields: Record<string, string | number>) => void;

interface BreakerOptions {
  /** Milliseconds, monotonic. */
  now: () => number;
  /** Asks the store for the same as the call for `key`, the one that failed; rejects when it is away. */
  probe: (key: string) => Promise<unknown>;
  /** Called at most once a second, while open and when closing again. */
  warn: Warn;
  /** What an error may say in a log. */
  causeOf: (error: unknown) => string;
}

interface Call {
  readonly key: string;
  readonly startedMs: number;
  /** True once the deadline was moved because our own loop was late. */
  excused: boolean;
  readonly release: () => void;
}

export class Breaker {
  readonly #options: BreakerOptions;
  readonly #underWay = new Set<Call>();
  #state: 'closed' | 'open' | 'ended' = 'closed';
  #watch: NodeJS.Timeout | undefined;
  #nextProbe: NodeJS.Timeout | undefined;
  #nextWarning: NodeJS.Timeout | undefined;
  #backoffMs = BACKOFF_MIN_MS;
  #closedAtMs = 0;
  #warnedAtMs = Number.NEGATIVE_INFINITY;
  #cause = '';
  #failedKey = '';
  #letThrough = 0;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#state !== 'closed';
  }

  /** Notes a request that goes uncounted because the breaker is open. */
  letThrough(): void {
    this.#letThrough += 1;
    this.#warn(AWAY);
  }

  /** The answer of `work`, or null when it failed or the budget ran out; never rejects. Only while closed. */
  run<T>(key: string, work: () => Promise<T>): Promise<T | null> {
    return new Promise((resolve) => {
      const call = { key, startedMs: this.#options.now(), excused: false, release: () => resolve(null) };
      this.#underWay.add(call);
      this.#watch ??= setTimeout(this.#look, BUDGET_MS, this.#options.now() + BUDGET_MS);
      work().then(
        (value) => {
          if (this.#underWay.delete(call)) resolve(value);
        },
        (error) => {
          if (this.#underWay.has(call)) this.open(this.#options.causeOf(error), key);
        },
      );
    });
  }

  /** Opens it (also from outside: a store that is away at start) and releases every call under way. */
  open(cause: string, key: string): void {
    if (this.#state !== 'closed') return;
    this.#state = 'open';
    this.#cause = cause;
    this.#failedKey = key;
    // One that fails again right after it closed has not recovered: go on with the longer waits.
    if (this.#options.now() - this.#closedAtMs >= BACKOFF_MAX_MS) this.#backoffMs = BACKOFF_MIN_MS;
    this.#letThrough += this.#underWay.size;
    this.#release();
    this.#warn(AWAY);
    this.#probeLater();
  }

  /** Ends it for good: open, without probes or warnings. */
  end(): void {
    this.#state = 'ended';
    clearTimeout(this.#nextProbe);
    clearTimeout(this.#nextWarning);
    this.#release();
  }

  #release(): void {
    clearTimeout(this.#watch);
    this.#watch = undefined;
    for (const call of this.#underWay) call.release();
    this.#underWay.clear();
  }

  /** One timer for all calls. Answers that have arrived are read (setImmediate) before anybody is said to be late. */
  readonly #look = (dueMs: number): void => {
    const lateMs = this.#options.now() - dueMs;
    setImmediate(() => {
      this.#watch = undefined;
      const [oldest] = this.#underWay;
      if (oldest === undefined || this.#state !== 'closed') return;
      const nowMs = this.#options.now();
      let leftMs = oldest.startedMs + BUDGET_MS - nowMs;
      if (leftMs <= 0 && lateMs > LOOP_LATE_MS && !oldest.excused) {
        // Else whoever keeps this process busy would switch its own limit off.
        oldest.excused = true;
        leftMs = Math.min(lateMs, BUDGET_MS);
      }
      if (leftMs <= 0) this.open(LATE, oldest.key);
      else this.#watch = setTimeout(this.#look, leftMs, nowMs + leftMs);
    });
  };

  #probeLater(): void {
    this.#nextProbe = setTimeout(() => void this.#probe(), this.#backoffMs).unref();
    this.#backoffMs = Math.min(this.#backoffMs * 2, BACKOFF_MAX_MS);
  }

  async #probe(): Promise<void> {
    const outcome = this.#options.probe(this.#failedKey).then(() => 'answered' as const, this.#options.causeOf);
    const inTime = await Promise.race([outcome, sleepThenRead(BUDGET_MS)]);
    // One probe at a time: a late one is waited for, since the same silence would meet the next.
    const late = inTime === undefined ? await Promise.race([outcome, sleepThenRead(PROBE_ABANDON_MS)]) : undefined;
    if (this.#state !== 'open') return;
    if (inTime === 'answered') return this.#close();
    this.#cause = inTime ?? LATE;
    if (late === 'answered') this.#backoffMs = BACKOFF_MIN_MS;
    this.#probeLater();
  }

  #close(): void {
    this.#state = 'closed';
    this.#closedAtMs = this.#options.now();
    clearTimeout(this.#nextWarning);
    this.#sayBack();
  }

  /** The last word must be the true one: it waits for its second, unless it is no longer so by then. */
  readonly #sayBack = (): void => {
    if (this.#state !== 'closed' || this.#warn(BACK)) return;
    const waitMs = Math.ceil(this.#warnedAtMs + WARNING_INTERVAL_MS - this.#options.now());
    this.#nextWarning = setTimeout(this.#sayBack, waitMs).unref();
  };

  /** False when the last warning was less than a second ago. */
  #warn(message: string): boolean {
    const nowMs = this.#options.now();
    if (this.#state === 'ended' || nowMs - this.#warnedAtMs < WARNING_INTERVAL_MS) return false;
    this.#warnedAtMs = nowMs;
    this.#options.warn(message, { cause: this.#cause, allowedUncounted: this.#letThrough });
    this.#letThrough = 0;
    return true;
  }
}

/** Waits, and then until what has arrived meanwhile is read: being busy ourselves is not the store's silence. */
async function sleepThenRead(timeoutMs: number): Promise<undefined> {
  await sleep(timeoutMs, undefined, { ref: false });
  await nextTurn();
}
