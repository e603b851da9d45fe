import { describe, expect, test } from 'vitest';
import { backoffMs, parseRetryAfter } from '../../../server/base/time/backoff.ts';

const range = { firstMs: 100, maxMs: 5_000 };

test.each([
  [0, 0, 50],
  [0, 0.999, 100],
  [1, 0, 100],
  [3, 0, 400],
  [6, 0, 2_500],
  [1_000_000, 0, 2_500],
])('try %i with random %d waits %i ms', (attempt, random, expected) => {
  expect(backoffMs(attempt, range, random)).toBe(expected);
});

describe('Retry-After', () => {
  const nowMs = Date.parse('2026-03-01T12:00:00Z');
  test.each([
    ['0', 0],
    ['42', 42_000],
    ['Sun, 01 Mar 2026 12:00:05 GMT', 5_000],
    ['Sun, 01 Mar 2026 11:00:00 GMT', 0],
    ['Sunday, 01-Mar-26 12:00:05 GMT', 5_000],
    ['soon', null],
    ['1.5', null],
    ['-1', null],
    ['', null],
    [undefined, null],
  ])('%j asks for %j ms', (value, expected) => {
    expect(parseRetryAfter(value, nowMs)).toBe(expected);
  });
});
