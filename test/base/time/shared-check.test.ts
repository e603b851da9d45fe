import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { SharedCheck } from '../../../server/base/time/shared-check.ts';

beforeEach(() => {
  vi.useFakeTimers();
});
afterEach(() => {
  vi.useRealTimers();
});

/** A check whose queries are answered by the test. */
function checkOf() {
  const asked: { resolve: (answer: string) => void; reject: (error: Error) => void }[] = [];
  const check = new SharedCheck<string>({
    ask: () => new Promise((resolve, reject) => asked.push({ resolve, reject })),
    validMs: (answer) => (answer === 'good' ? 5_000 : 1_000),
    patienceMs: 800,
    late: 'late',
    nowMs: () => Date.now(),
  });
  return { check, asked };
}

test('concurrent callers share one query, and its result while it is valid', async () => {
  const { check, asked } = checkOf();
  const answers = [check.answer(), check.answer()];
  expect(asked).toHaveLength(1);
  asked[0]!.resolve('good');
  expect(await Promise.all(answers)).toEqual(['good', 'good']);
  vi.advanceTimersByTime(4_999);
  expect(await check.answer()).toBe('good');
  expect(asked).toHaveLength(1);
  vi.advanceTimersByTime(1);
  void check.answer();
  expect(asked).toHaveLength(2);
});

test('a query without a result is awaited once and not repeated, and later callers get the fallback at once', async () => {
  const { check, asked } = checkOf();
  const first = check.answer();
  vi.advanceTimersByTime(800);
  expect(await first).toBe('late');
  expect(await check.answer()).toBe('late');
  expect(asked).toHaveLength(1);
  asked[0]!.resolve('good');
  await vi.advanceTimersByTimeAsync(0);
  expect(await check.answer()).toBe('good');
});

test('a failed query counts as late, for the validity of a late result', async () => {
  const { check, asked } = checkOf();
  const first = check.answer();
  asked[0]!.reject(new Error('gone'));
  expect(await first).toBe('late');
  vi.advanceTimersByTime(999);
  expect(await check.answer()).toBe('late');
  expect(asked).toHaveLength(1);
});

test('a noted result saves the query, and an older result does not replace it', async () => {
  const { check, asked } = checkOf();
  check.note('bad');
  expect(await check.answer()).toBe('bad');
  vi.advanceTimersByTime(1_000);
  void check.answer();
  vi.advanceTimersByTime(100);
  check.note('good');
  asked[0]!.resolve('bad');
  await vi.advanceTimersByTimeAsync(0);
  expect(await check.answer()).toBe('good');
});
