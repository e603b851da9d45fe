import { expect, test } from 'vitest';
import { formatNumber, formatSpread, percentile, ratioByRound, spreadOf } from '../../bench/lib/stats.ts';

test('the median of an odd number of rounds is the middle one', () => {
  expect(spreadOf([9, 1, 5])).toEqual({ median: 5, low: 1, high: 9 });
});

test('the median of an even number of rounds is the mean of the middle ones', () => {
  expect(spreadOf([4, 1, 2, 9])).toEqual({ median: 3, low: 1, high: 9 });
});

test('values are sorted as numbers, not as strings', () => {
  expect(spreadOf([100, 9, 20]).median).toBe(20);
});

test('no rounds have no median', () => {
  expect(() => spreadOf([])).toThrow('no values');
});

test.each([
  [[7], 0.95, 7],
  [[4, 1, 3, 2], 0.5, 2],
  [[10, 9, 8, 7, 6, 5, 4, 3, 2, 1], 0.95, 10],
  [[-1, -2], 0, -2],
])('of %j the percentile %d is %d', (values, share, expected) => {
  expect(percentile(values, share)).toBe(expected);
});

test('a ratio is computed per round', () => {
  expect(ratioByRound([10, 40], [5, 10])).toEqual([2, 4]);
  expect(() => ratioByRound([1], [1, 2])).toThrow('the same number of rounds');
});

test.each([
  [0, '0'],
  [0.2371, '0.237'],
  [0.0221, '0.0221'],
  [1.005, '1'],
  [37.34, '37.3'],
  [99.96, '100'],
  [150.7, '151'],
  [24_310.4, '24,310'],
])('%d is formatted as %s', (value, text) => {
  expect(formatNumber(value)).toBe(text);
});

test('one round has no spread', () => {
  expect(formatSpread([1234])).toBe('1,234');
  expect(formatSpread([1, 3, 2])).toBe('2 (1 to 3)');
});
