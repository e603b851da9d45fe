/**
 * How many deliveries an agent claims. It claims ahead of free slots, so that fast handlers do not wait for a claim each time: as many
 * deliveries as begin within BEGIN_MS at the pace of the handlers.
 */
const BEGIN_MS = 100;
const AHEAD_MAX = 300;

const CLAIM_MAX = 1_000;

/** The pace of the handlers of one run. */
export class Pace {
  readonly #slots: number;
  /** Estimated time of a handler: it rises at once with a longer time, and falls slowly. */
  #workMs = Number.POSITIVE_INFINITY;
  /** When a handler ended, or began while none ran. */
  #leftMs = 0;

  constructor(slots: number) {
    this.#slots = slots;
  }

  /** @param running number of handlers that run already */
  began(running: number): void {
    if (running === 0) this.#leftMs = performance.now();
  }

  ended(workMs: number): void {
    this.#leftMs = performance.now();
    const before = this.#workMs === Number.POSITIVE_INFINITY ? workMs : this.#workMs;
    this.#workMs = Math.max(workMs, before + (workMs - before) / 8);
  }

  /**
   * `room`: number of deliveries to claim now. `batch`: maximum in one claim; while handlers are fast, half of the deliveries that may run or
   * wait, so that the next claim gets the other half.
   */
  room(running: number, waiting: number): { room: number; batch: number } {
    // While handlers run and none ends, the time since the last end bounds the pace.
    const silentMs = running === 0 ? 0 : performance.now() - this.#leftMs;
    const ahead = Math.min(AHEAD_MAX, Math.floor(BEGIN_MS / Math.max(this.#workMs / this.#slots, silentMs)));
    const free = this.#slots - running;
    const room = free + ahead - waiting;
    // Claim when half of the places ahead are free, instead of once for each place.
    const isDue = free > 0 || room >= ahead / 2;
    const batch = ahead === 0 ? this.#slots : Math.ceil((this.#slots + ahead) / 2);
    return { room: isDue ? Math.min(room, CLAIM_MAX) : 0, batch };
  }
}
