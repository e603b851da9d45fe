/** Durations of the stages of the response path. Stages are consecutive. The caller excludes intentional waits. */

/** Names of the stages. A Stage is an index in this list. */
export const stageNames = ['accept', 'body', 'limit', 'verify', 'commit', 'respond'] as const;

export const Stage = { accept: 0, body: 1, limit: 2, verify: 3, commit: 4, respond: 5 } as const satisfies Record<
  (typeof stageNames)[number],
  number
>;
export type Stage = (typeof Stage)[keyof typeof Stage];

export class StageClock {
  readonly startedMs = performance.now();
  /** Milliseconds of each stage; 0 if the request did not reach it. Indexed by number: by name, it cost 1 us more per request. */
  readonly ms = [0, 0, 0, 0, 0, 0];
  #lastMs = this.startedMs;
  #skippedMs = 0;

  /** Ends a stage: adds the time since the last call to it. */
  lap(stage: Stage): void {
    const nowMs = performance.now();
    this.ms[stage]! += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  /** Excludes the time since the last call from all stages and from the total: it was an intentional wait. */
  skip(): void {
    const nowMs = performance.now();
    this.#skippedMs += nowMs - this.#lastMs;
    this.#lastMs = nowMs;
  }

  /** Time from the first header to the end of the response, without skipped time. */
  get totalMs(): number {
    return this.#lastMs - this.startedMs - this.#skippedMs;
  }
}
