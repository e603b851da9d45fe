/** How long each step of the answer path took. Steps lie end to end; waiting on purpose is left out by the caller. */

/** Names of the steps; a Stage is a place in this list. */
export const stageNames = ['accept', 'body', 'limit', 'verify', 'commit', 'respond'] as const;

export const Stage = { accept: 0, body: 1, limit: 2, verify: 3, commit: 4, respond: 5 } as const satisfies Record<
  (typeof stageNames)[number],
  number
>;
export type Stage = (typeof Stage)[keyof typeof Stage];

export class StageClock {
  readonly startedMs = performance.now();
  /** Milliseconds of each stage, 0 where a request did not come. By number: by name it cost 1 us a request more. */
  readonly ms = [0, 0, 0, 0, 0, 0];
  #lastMs = this.startedMs;
  #skippedMs = 0;

  /** Ends a stage: the time since the last call is its own. */
  lap(stage: Stage): void {
    const nowMs = performance.now();
    this.ms[stage]! += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  /** Counts the time since the last call to no stage, and not to the total. */
  skip(): void {
    const nowMs = performance.now();
    this.#skippedMs += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  /** From the first header to the end of the answer. */
  get totalMs(): number {
    return this.#lastMs - this.startedMs - this.#skippedMs;
  }
}
