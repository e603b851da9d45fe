import { expect, test } from 'vitest';
import { comparisonsOf } from '../../bench/compare.ts';
import { BARE } from '../../bench/lib/contestants.ts';

/** Rounds of one side. */
const rounds = (figures: Record<string, [unit: string, ...values: number[]]>) => {
  const count = Object.values(figures)[0]!.length - 1;
  return Array.from(
    { length: count },
    (_, i) =>
      new Map(Object.entries(figures).map(([name, [unit, ...values]]) => [name, { unit, value: values[i]! }] as const)),
  );
};
const verdicts = (unit: string, a: number[], b: number[]) =>
  comparisonsOf(rounds({ m: [unit, ...a] }), rounds({ m: [unit, ...b] })).map(({ verdict }) => verdict);

test.each([
  ['requests/s', [100, 100, 100], [90, 91, 92], 'slower'],
  ['requests/s', [100, 100, 100], [110, 111, 112], 'faster'],
  ['us', [10, 10, 10], [12, 12.1, 12.2], 'slower'],
  ['us', [10, 10, 10], [8, 8.1, 8.2], 'faster'],
  // The ratios differ from each other more than their median from 1.
  ['us', [10, 10, 10], [10, 12, 14], 'same'],
  // What changes both sides of a round alike does not count as noise.
  ['us', [10, 20, 30], [12, 24, 36], 'slower'],
  // Below the smallest change.
  ['us', [100, 100, 100], [101, 101, 101], 'same'],
])('%s %j before and %j after: %s', (unit, a, b, verdict) => {
  expect(verdicts(unit, a, b)).toEqual([verdict]);
});

test('counts of a window, other contestants, and what one side did not measure are left out', () => {
  const a = rounds({
    'Weir: p99': ['ms', 1, 1],
    [`${BARE}: p99`]: ['ms', 1, 1],
    answers: ['2xx', 9, 9],
    gone: ['ms', 1, 1],
    nothing: ['ms', 0, 1],
  });
  const b = rounds({
    'Weir: p99': ['ms', 1, 1],
    [`${BARE}: p99`]: ['ms', 9, 9],
    answers: ['2xx', 1, 1],
    nothing: ['ms', 1, 1],
  });
  expect(comparisonsOf(a, b).map(({ name }) => name)).toEqual(['Weir: p99']);
});
