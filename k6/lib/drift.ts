/** How late figures of a long run compare with early ones. */

/** The start is left out of both: caches fill, code is compiled, and a heap finds its size. */
export type Phase = 'warm-up' | 'early' | 'middle' | 'late';

const WARM_UP_SHARE = 0.2;
/** Of the whole run. */
export const EARLY_SHARE = 0.2;

/** @param progress of the scenario, 0 to 1 */
export function phaseAt(progress: number): Phase {
  if (progress < WARM_UP_SHARE) return 'warm-up';
  if (progress < WARM_UP_SHARE + EARLY_SHARE) return 'early';
  return progress < 0.7 ? 'middle' : 'late';
}

/** Late figures beside the mean of the early ones. Virtual users share nothing: each has a Drift of its own. */
export class Drift {
  #earlySum = 0;
  #earlyCount = 0;

  /** @returns for a late figure its percent of the early mean; else null, and null where nothing early is known */
  note(phase: Phase, figure: number): number | null {
    if (phase === 'early') {
      this.#earlySum += figure;
      this.#earlyCount++;
    }
    if (phase !== 'late' || this.#earlySum === 0) return null;
    return (100 * figure * this.#earlyCount) / this.#earlySum;
  }
}
