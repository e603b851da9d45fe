/**
 * A circuit breaker for an optional store.
 *
 *                 a call fails or takes over BUDGET_MS
 *       closed --------------------------------------------> open: no call is made
 *          ^                                                  |
 *          '--- one probe answered within BUDGET_MS <---------'  a probe after 100 ms, 200 ms, .. 1 s, one at a time
 *
 * When the breaker opens, it releases all calls in progress together. No request waits for a probe: a hung store costs 50 ms once,
 * not on every request.
 */
import { setImmediate as nextTurn, setTimeout as sleep } from 'node:timers/promises';

/** Maximum time that a request waits for the store. */
export const BUDGET_MS = 50;
const BACKOFF_MIN_MS = 100;
const BACKOFF_MAX_MS = 1000;
/** A probe without an answer is abandoned after this time. */
const PROBE_ABANDON_MS = 5000;
/**
 * An outage is over when the breaker has stayed closed for this long: on a busy machine Redis is late again and again, and the breaker
 * opened 65 times within minutes.
 */
const CALM_MS = 10_000;
/** A timer later than this means that the event loop of this process was busy, not that the store is slow. */
const LOOP_LATE_MS = 10;

const LATE = `no response within ${BUDGET_MS} ms`;

interface OutageEnd {
  /** The latest failure, without secrets. */
  reason: string;
  /** From the first opening of the breaker to its last closing. */
  seconds: number;
  interruptions: number;
  allowed_uncounted: number;
}

/** Reports the start and the end of an outage, once each. Values are plain and without secrets. */
export interface OutageReport {
  began(start: { reason: string }): void;
  ended(end: OutageEnd): void;
}

interface BreakerOptions {
  /** Monotonic clock, in milliseconds. */
  now: () => number;
  /** Makes the same kind of call as the one that failed for `key`. Rejects if the store is unavailable. */
  probe: (key: string) => Promise<unknown>;
  report: OutageReport;
  calmMs?: number;
  /** Converts an error to text that is safe to log. */
  causeOf: (error: unknown) => string;
}

interface TimedCall {
  readonly key: string;
  readonly startedMs: number;
  /** True once the deadline was extended because the event loop was late. */
  excused: boolean;
  readonly release: () => void;
}

export class Breaker {
  readonly #options: BreakerOptions;
  readonly #underWay = new Set<TimedCall>();
  #state: 'closed' | 'open' | 'ended' = 'closed';
  #watch: NodeJS.Timeout | undefined;
  #nextProbe: NodeJS.Timeout | undefined;
  #calm: NodeJS.Timeout | undefined;
  #backoffMs = BACKOFF_MIN_MS;
  #closedAtMs = 0;
  #cause = '';
  #failedKey = '';
  /** Null: requests are counted, and have been since the end of the last outage was reported. */
  #outage: { startedMs: number; interruptions: number; uncounted: number } | null = null;

  constructor(options: BreakerOptions) {
    this.#options = options;
  }

  get isOpen(): boolean {
    return this.#state !== 'closed';
  }

  /** Records a request that is not counted because the breaker is open. */
  letThrough(): void {
    if (this.#outage !== null) this.#outage.uncounted += 1;
  }

  /** Returns the result of `work`, or null if it failed or exceeded the budget. Never rejects. Call it only while closed. */
  run<T>(key: string, work: () => Promise<T>): Promise<T | null> {
    return new Promise((resolve) => {
      const call = { key, startedMs: this.#options.now(), excused: false, release: () => resolve(null) };
      this.#underWay.add(call);
      this.#watch ??= setTimeout(this.#checkOldest, BUDGET_MS, this.#options.now() + BUDGET_MS);
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

  /** Opens the breaker and releases all calls in progress. Also called directly if the store is unavailable at start. */
  open(cause: string, key: string): void {
    if (this.#state !== 'closed') return;
    this.#state = 'open';
    this.#cause = cause;
    this.#failedKey = key;
    // A failure right after closing means that the store has not recovered: keep the longer back-off.
    if (this.#options.now() - this.#closedAtMs >= BACKOFF_MAX_MS) this.#backoffMs = BACKOFF_MIN_MS;
    clearTimeout(this.#calm);
    if (this.#outage === null) this.#options.report.began({ reason: cause });
    this.#outage ??= { startedMs: this.#options.now(), interruptions: 0, uncounted: 0 };
    this.#outage.interruptions += 1;
    this.#outage.uncounted += this.#underWay.size;
    this.#release();
    this.#probeLater();
  }

  /** Ends the breaker permanently: open, without probes or reports. */
  end(): void {
    this.#state = 'ended';
    clearTimeout(this.#nextProbe);
    clearTimeout(this.#calm);
    this.#release();
  }

  #release(): void {
    clearTimeout(this.#watch);
    this.#watch = undefined;
    for (const call of this.#underWay) call.release();
    this.#underWay.clear();
  }

  /** One timer for all calls. Reads answers that have arrived (setImmediate) before it treats a call as late. */
  readonly #checkOldest = (dueMs: number): void => {
    const lateMs = this.#options.now() - dueMs;
    setImmediate(() => {
      this.#watch = undefined;
      const [oldest] = this.#underWay;
      if (oldest === undefined || this.#state !== 'closed') return;
      const nowMs = this.#options.now();
      let leftMs = oldest.startedMs + BUDGET_MS - nowMs;
      if (leftMs <= 0 && lateMs > LOOP_LATE_MS && !oldest.excused) {
        // Otherwise a client that keeps this process busy would disable its own rate limit.
        oldest.excused = true;
        leftMs = Math.min(lateMs, BUDGET_MS);
      }
      if (leftMs <= 0) this.open(LATE, oldest.key);
      else this.#watch = setTimeout(this.#checkOldest, leftMs, nowMs + leftMs);
    });
  };

  #probeLater(): void {
    this.#nextProbe = setTimeout(() => void this.#probe(), this.#backoffMs).unref();
    this.#backoffMs = Math.min(this.#backoffMs * 2, BACKOFF_MAX_MS);
  }

  async #probe(): Promise<void> {
    const outcome = this.#options.probe(this.#failedKey).then(() => 'answered' as const, this.#options.causeOf);
    const inTime = await Promise.race([outcome, sleepThenRead(BUDGET_MS)]);
    // One probe at a time: wait for a late one, because the next probe would time out too.
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
    this.#calm = setTimeout(this.#reportEnd, this.#options.calmMs ?? CALM_MS).unref();
  }

  readonly #reportEnd = (): void => {
    const { startedMs, interruptions, uncounted } = this.#outage!;
    this.#outage = null;
    const seconds = Math.round((this.#closedAtMs - startedMs) / 100) / 10;
    this.#options.report.ended({ reason: this.#cause, seconds, interruptions, allowed_uncounted: uncounted });
  };
}

/** Waits, then reads answers that arrived during the wait, so that a busy event loop does not count as a silent store. */
async function sleepThenRead(timeoutMs: number): Promise<undefined> {
  await sleep(timeoutMs, undefined, { ref: false });
  await nextTurn();
}
