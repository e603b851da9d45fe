import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Throttle } from '../../../server/base/telemetry/throttle.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

function written(intervalMs: number) {
  const lines: [report: number, leftOut: number][] = [];
  return { lines, throttle: new Throttle<number>(intervalMs, (report, leftOut) => lines.push([report, leftOut])) };
}

test('the first report is written at once, then one an interval, with the number of omitted ones', () => {
  const { lines, throttle } = written(1_000);
  for (let report = 1; report <= 10; report++) throttle.add(report);
  expect(lines).toEqual([[1, 0]]);
  vi.advanceTimersByTime(1_000);
  expect(lines).toEqual([
    [1, 0],
    [10, 8],
  ]);
  throttle.add(11);
  vi.advanceTimersByTime(1_000);
  expect(lines.at(-1)).toEqual([11, 0]);
});

test('several are written at once if allowed, and one at the end of an interval belongs to the next', () => {
  const lines: [report: number, leftOut: number][] = [];
  const throttle = new Throttle<number>(1_000, (report, leftOut) => lines.push([report, leftOut]), 3);
  for (let report = 1; report <= 10; report++) throttle.add(report);
  expect(lines.map(([report]) => report)).toEqual([1, 2, 3]);
  vi.advanceTimersByTime(1_000);
  expect(lines.at(-1)).toEqual([10, 6]);
  for (let report = 11; report <= 20; report++) throttle.add(report);
  expect(lines.map(([report]) => report)).toEqual([1, 2, 3, 10, 11, 12]);
  vi.advanceTimersByTime(1_000);
  expect(lines.at(-1)).toEqual([20, 7]);
});

test('after an interval without reports the next one is written at once', () => {
  const { lines, throttle } = written(1_000);
  throttle.add(1);
  vi.advanceTimersByTime(1_000);
  throttle.add(2);
  expect(lines).toEqual([
    [1, 0],
    [2, 0],
  ]);
});
