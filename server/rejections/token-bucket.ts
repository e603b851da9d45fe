/** Token bucket: `burst` tokens at once, then `perSecond` tokens per second. */
export class TokenBucket {
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
