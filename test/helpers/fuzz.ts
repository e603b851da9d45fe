/**
 * Size of the generated tests. FUZZ_FACTOR (default 1) multiplies their numbers of cases; the defaults are a share that takes seconds.
 * FUZZ_FACTOR=10 runs every listed case and ten times as many random ones.
 */
const FACTOR = Number(process.env.FUZZ_FACTOR ?? 1);

/** Returns the number of random cases for a number at FUZZ_FACTOR=1. */
export function fuzzRuns(runs: number): number {
  return Math.ceil(runs * FACTOR);
}

/** Returns `count` of the listed cases at FUZZ_FACTOR=1, others for each `turn`, so that the callers together take all. */
export function shareOf<T>(cases: readonly T[], count: number, turn: number): T[] {
  const taken = Math.min(cases.length, fuzzRuns(count));
  return Array.from({ length: taken }, (_, i) => cases[(turn * taken + i) % cases.length]!);
}

/** Integers from 0 to below a limit, the same for the same seed (mulberry32). */
export function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
export type Numbers = ReturnType<typeof numbers>;
export const oneOf = <T>(next: Numbers, choices: readonly T[]): T => choices[next(choices.length)]!;
