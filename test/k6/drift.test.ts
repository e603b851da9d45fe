import { expect, test } from 'vitest';
import { Drift, phaseAt } from '../../k6/lib/drift.ts';

test.each([
  [0, 'warm-up'],
  [0.19, 'warm-up'],
  [0.2, 'early'],
  [0.39, 'early'],
  [0.4, 'middle'],
  [0.69, 'middle'],
  [0.7, 'late'],
  [1, 'late'],
])('at %d of the run it is %s', (progress, phase) => {
  expect(phaseAt(progress)).toBe(phase);
});

test('a late figure is given in percent of the mean of the early ones', () => {
  const drift = new Drift();
  expect(drift.note('warm-up', 1_000)).toBeNull();
  expect(drift.note('early', 10)).toBeNull();
  expect(drift.note('early', 30)).toBeNull();
  expect(drift.note('middle', 1_000)).toBeNull();
  expect(drift.note('late', 20)).toBe(100);
  expect(drift.note('late', 30)).toBe(150);
});

test('without early figures there is no result', () => {
  const drift = new Drift();
  expect(drift.note('late', 20)).toBeNull();
  drift.note('early', 0);
  expect(drift.note('late', 20)).toBeNull();
});
