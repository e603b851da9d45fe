/**
 * Slots for the handlers, and the deliveries that wait for one. Deliveries are claimed ahead of free slots, so that fast handlers do not
 * wait for a claim each time: as many as begin within BEGIN_MS at the pace of the handlers. One that still waits after WAIT_MS_MAX is
 * not begun, so that slow work takes nothing from an idle consumer.
 */
const BEGIN_MS = 100;
const WAIT_MS_MAX = 1_000;
const AHEAD_MAX = 300;

/** Maximum deliveries in one claim, as in the API. */
const CLAIM_MAX = 1_000;

interface Waiting {
  sinceMs: number;
  resolve: (mayBegin: boolean) => void;
}

export class Slots {
  readonly #total: number;
  readonly #signal: AbortSignal;
  #free: number;
  #waiting: Waiting[] = [];
  #timer: NodeJS.Timeout | undefined;
  /** Estimated time of a handler: it rises at once with a longer time, and falls slowly. */
  #workMs = Number.POSITIVE_INFINITY;
  /** When a handler ended, or began while none ran. */
  #leftMs = 0;

  /** @param signal after it, no work begins */
  constructor(total: number, signal: AbortSignal) {
    this.#total = total;
    this.#free = total;
    this.#signal = signal;
    signal.addEventListener('abort', () => this.#refuse(Number.POSITIVE_INFINITY));
  }

  /** Number of deliveries of one claim. While handlers are fast it is half of what may be in work or wait: the next claim gets the other half. */
  batch(): number {
    const ahead = this.#ahead();
    return ahead === 0 ? this.#total : Math.ceil((this.#total + ahead) / 2);
  }

  /** Number of deliveries to claim now. */
  room(): number {
    const ahead = this.#ahead();
    const room = this.#free + ahead - this.#waiting.length;
    // Claim when half of the places ahead are free, instead of once for each place.
    const isDue = this.#free > 0 || room >= ahead / 2;
    return isDue ? Math.max(0, Math.min(room, CLAIM_MAX)) : 0;
  }

  /** Resolves when a slot is free: `leave` frees it. False: the work must not begin. */
  enter(): Promise<boolean> {
    if (this.#signal.aborted) return Promise.resolve(false);
    if (this.#free > 0) {
      if (this.#free === this.#total) this.#leftMs = performance.now();
      this.#free -= 1;
      return Promise.resolve(true);
    }
    return new Promise((resolve) => {
      this.#waiting.push({ sinceMs: performance.now(), resolve });
      this.#watch();
    });
  }

  /** @param workMs time in the slot */
  leave(workMs: number): void {
    this.#leftMs = performance.now();
    const before = this.#workMs === Number.POSITIVE_INFINITY ? workMs : this.#workMs;
    this.#workMs = Math.max(workMs, before + (workMs - before) / 8);
    const next = this.#waiting.shift();
    if (next === undefined) this.#free += 1;
    else next.resolve(true);
  }

  /** Deliveries to claim ahead. While handlers run and none ends, the time since the last end bounds the pace. */
  #ahead(): number {
    const silentMs = this.#free === this.#total ? 0 : performance.now() - this.#leftMs;
    const paceMs = Math.max(this.#workMs / this.#total, silentMs);
    return Math.min(AHEAD_MAX, Math.floor(BEGIN_MS / paceMs));
  }

  #watch(): void {
    const [oldest] = this.#waiting;
    if (this.#timer !== undefined || oldest === undefined) return;
    const onTime = () => {
      this.#timer = undefined;
      this.#refuse(performance.now() - WAIT_MS_MAX);
      this.#watch();
    };
    this.#timer = setTimeout(onTime, Math.max(1, oldest.sinceMs + WAIT_MS_MAX - performance.now()));
  }

  /** @param untilMs refuses the work that has waited since this time or longer */
  #refuse(untilMs: number): void {
    const late = this.#waiting.filter(({ sinceMs }) => sinceMs <= untilMs);
    this.#waiting = this.#waiting.filter(({ sinceMs }) => sinceMs > untilMs);
    for (const { resolve } of late) resolve(false);
    if (this.#waiting.length > 0) return;
    clearTimeout(this.#timer);
    this.#timer = undefined;
  }
}
