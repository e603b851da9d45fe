/** Compares late figures of a long run with early ones. */

/** The warm-up, in which caches fill, code is compiled and the heap grows, is neither early nor late. */
export type Phase = 'warm-up' | 'early' | 'middle' | 'late';

const WARM_UP_SHARE = 0.2;
/** Share of the whole run. */
export const EARLY_SHARE = 0.2;

/** The phase of a run. @param progress that of the scenario, from 0 to 1 */
export function phaseAt(progress: number): Phase {
  if (progress < WARM_UP_SHARE) return 'warm-up';
  if (progress < WARM_UP_SHARE + EARLY_SHARE) return 'early';
  return progress < 0.7 ? 'middle' : 'late';
}

/** Compares late figures with the mean of the early ones. Virtual users share no state, so each has its own Drift. */
export class Drift {
  #earlySum = 0;
  #earlyCount = 0;

  /** @returns a late figure in percent of the early mean; null for other phases, and when there are no early figures */
  note(phase: Phase, figure: number): number | null {
    if (phase === 'early') {
      this.#earlySum += figure;
      this.#earlyCount++;
    }
    if (phase !== 'late' || this.#earlySum === 0) return null;
    return (100 * figure * this.#earlyCount) / this.#earlySum;
  }
}
