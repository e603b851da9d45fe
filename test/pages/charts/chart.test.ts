import { expect, test } from 'vitest';
import { chart, niceCeiling } from '../../../server/pages/charts/chart.ts';

const frame = { width: 100, height: 56 };

test('the newest point is at the right edge, the greatest value below the top', () => {
  const { lines, ticks } = chart({ a: [0, 4] }, 11, frame);
  expect(lines).toEqual([{ name: 'a', line: 'M90 56L100 6', area: 'M90 56L90 56L100 6L100 56Z' }]);
  expect(ticks).toEqual([
    { value: 0, y: 56 },
    { value: 2, y: 31 },
    { value: 4, y: 6 },
  ]);
});

test('without values the line has a gap, and a point between two gaps is a dash', () => {
  expect(chart({ a: [1, null, 1] }, 3, frame).lines[0]!.line).toBe('M0 6h1M100 6h1');
});

test('all series share one scale', () => {
  const { lines } = chart({ a: [10], b: [5] }, 2, frame);
  expect(lines.map(({ line }) => line)).toEqual(['M100 6h1', 'M100 31h1']);
});

test('no data is an empty chart', () => {
  expect(chart({ a: [] }, 300, frame).lines).toEqual([{ name: 'a', line: '', area: '' }]);
});

test.each([
  [0, 1],
  [1, 1],
  [3, 4],
  [41, 50],
  [50, 50],
  [51, 100],
  [28_300, 40_000],
])('the scale above %i ends at %i', (value, ceiling) => {
  expect(niceCeiling(value)).toBe(ceiling);
});
