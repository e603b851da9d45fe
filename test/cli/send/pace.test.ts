import { describe, expect, test } from 'vitest';
import { type Attempt, nextStep, Pace, parseRetryAfter, triesMax } from '../../../server/cli/send/pace.ts';

const answered = (status: number, retryAfterMs: number | null = null): Attempt => ({
  kind: 'answered',
  status,
  retryAfterMs,
  latencyMs: 1,
});
const lost: Attempt = { kind: 'failed', name: 'ECONNRESET' };

describe('what comes after an attempt', () => {
  test.each([200, 202, 302, 400, 403, 404, 410, 413, 500, 502])('%i is final', (status) => {
    expect(nextStep(answered(status, 1000), 1, 0, 0)).toEqual({ kind: 'finished' });
  });

  test.each([429, 503])('%i is repeated by everybody after the wait that the server named', (status) => {
    expect(nextStep(answered(status, 7000), 1, 1, 0)).toEqual({ kind: 'again', afterMs: 7000, forAll: true });
  });

  test('without a named wait the waits grow, to five seconds', () => {
    const waits = [1, 2, 3, 20].map((refusals) => nextStep(answered(429), 0, refusals, 0.999999));
    expect(waits.map((step) => step.kind === 'again' && step.afterMs)).toEqual([200, 400, 800, 5000]);
  });

  test('a lost connection is repeated by its own request only', () => {
    expect(nextStep(lost, 1, 0, 0)).toEqual({ kind: 'again', afterMs: 100, forAll: false });
  });

  test.each([
    ['503', answered(503, 0)],
    ['a lost connection', lost],
  ])('%s is given up at the bound, not one try before', (_name, attempt) => {
    expect(nextStep(attempt, triesMax - 1, 0, 0).kind).toBe('again');
    expect(nextStep(attempt, triesMax, 0, 0).kind).toBe('finished');
  });

  test('429 is never given up', () => {
    expect(nextStep(answered(429, 0), 0, 100_000, 0).kind).toBe('again');
  });
});

describe('Retry-After', () => {
  const nowMs = Date.parse('2026-03-01T12:00:00Z');
  test.each([
    ['0', 0],
    ['42', 42_000],
    ['Sun, 01 Mar 2026 12:00:05 GMT', 5_000],
    ['Sun, 01 Mar 2026 11:00:00 GMT', 0],
    ['soon', null],
    ['', null],
    [undefined, null],
  ])('%j asks for %j ms', (value, expected) => {
    expect(parseRetryAfter(value, nowMs)).toBe(expected);
  });
});

describe('the pace', () => {
  test('gives one place every 1000 / rate ms, whenever it is asked', () => {
    const pace = new Pace(4, 1000);
    expect([pace.take(), pace.take(), pace.take()]).toEqual([1000, 1250, 1500]);
  });

  test('without a rate everything is due at once', () => {
    const pace = new Pace(null, 1000);
    expect([pace.take(), pace.take()]).toEqual([1000, 1000]);
  });

  test('a pause moves the schedule: no burst follows it', () => {
    const pace = new Pace(4, 1000);
    pace.take();
    pace.holdUntil(5000);
    expect([pace.isHeldAt(4999), pace.isHeldAt(5000)]).toEqual([true, false]);
    expect([pace.take(), pace.take()]).toEqual([5000, 5250]);
  });

  test('a shorter pause does not end a longer one', () => {
    const pace = new Pace(null, 1000);
    pace.holdUntil(5000);
    pace.holdUntil(3000);
    expect(pace.take()).toBe(5000);
  });
});
