/** How long each step of the answer path took. Steps lie end to end; waiting on purpose is left out by the caller. */

export const stages = ['accept', 'body', 'limit', 'verify', 'commit', 'respond'] as const;
export type Stage = (typeof stages)[number];

/** Milliseconds of each stage; 0 for stages that a request did not reach. */
export class StageClock {
  readonly startedMs = performance.now();
  #lastMs = this.startedMs;
  accept = 0;
  body = 0;
  limit = 0;
  verify = 0;
  commit = 0;
  respond = 0;

  lap(stage: Stage): void {
    const nowMs = performance.now();
    this[stage] += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  /** From the first header to the end of the answer. */
  get totalMs(): number {
    return this.#lastMs - this.startedMs;
  }
}
