import { describe, expect, test } from 'vitest';
import { repetition, SendSchedule, triesMax } from '../../../server/cli/send/send-requests.ts';
import type { SendAttempt } from '../../../server/cli/send/summary.ts';

const answered = (status: number, retryAfterMs: number | null = null): SendAttempt => ({
  kind: 'answered',
  status,
  retryAfterMs,
  latencyMs: 1,
});
const lost: SendAttempt = { kind: 'failed', name: 'ECONNRESET' };

describe('the next step after an attempt', () => {
  test.each([200, 202, 302, 400, 403, 404, 410, 413, 500])('%i is final', (status) => {
    expect(repetition(answered(status, 1000), 1, 0, 0)).toBeNull();
  });

  test.each([429, 503])('%i is retried by all connections after Retry-After', (status) => {
    expect(repetition(answered(status, 7000), 1, 1, 0)).toEqual({ afterMs: 7000, forAll: true });
  });

  test('without Retry-After the waits increase up to five seconds', () => {
    const waits = [1, 2, 3, 20].map((refusals) => repetition(answered(429), 0, refusals, 0.999999)!.afterMs);
    expect(waits).toEqual([200, 400, 800, 5000]);
  });

  test.each([
    ['a lost connection', lost],
    ['502 of a proxy', answered(502)],
    ['504 of a proxy', answered(504)],
  ])('%s is retried only by its own request', (_name, attempt) => {
    expect(repetition(attempt, 1, 0, 0)).toEqual({ afterMs: 100, forAll: false });
  });

  test.each([
    ['503', answered(503, 0)],
    ['a lost connection', lost],
  ])('%s is abandoned exactly at the maximum number of tries', (_name, attempt) => {
    expect(repetition(attempt, triesMax - 1, 0, 0)).not.toBeNull();
    expect(repetition(attempt, triesMax, 0, 0)).toBeNull();
  });

  test('429 is never abandoned', () => {
    expect(repetition(answered(429, 0), 0, 100_000, 0)).not.toBeNull();
  });
});

describe('the schedule', () => {
  test('has one slot every 1000 / rate ms, for any time of the call', () => {
    const pace = new SendSchedule(4, 1000);
    expect([pace.take(), pace.take(), pace.take()]).toEqual([1000, 1250, 1500]);
  });

  test('without a rate has every slot at once', () => {
    const pace = new SendSchedule(null, 1000);
    expect([pace.take(), pace.take()]).toEqual([1000, 1000]);
  });

  test('is moved by a pause, without a burst after it', () => {
    const pace = new SendSchedule(4, 1000);
    pace.take();
    pace.holdUntil(5000);
    expect([pace.isHeldAt(4999), pace.isHeldAt(5000)]).toEqual([true, false]);
    expect([pace.take(), pace.take()]).toEqual([5000, 5250]);
  });

  test('keeps a longer pause when a shorter one follows', () => {
    const pace = new SendSchedule(null, 1000);
    pace.holdUntil(5000);
    pace.holdUntil(3000);
    expect(pace.take()).toBe(5000);
  });
});
