import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { decide } from '../../../server/base/ratelimit/window.ts';
import { fuzzRuns } from '../../helpers/fuzz.ts';

/** Sends at the given times (whole milliseconds, ascending); returns the times that were allowed. */
function send(timesMs: number[], policy: { max: number; windowSeconds: number }): number[] {
  const windowMs = policy.windowSeconds * 1000;
  let bucket = 0;
  let previous = 0;
  let current = 0;
  return timesMs.filter((timeMs) => {
    const now = Math.floor(timeMs / windowMs);
    if (now !== bucket) previous = now === bucket + 1 ? current : 0;
    if (now !== bucket) current = 0;
    bucket = now;
    const { allowed } = decide(previous, current, timeMs - now * windowMs, policy);
    if (allowed) current += 1;
    return allowed;
  });
}

/** The exact sliding log: number of `timesMs` in the window that ends at `endMs`. */
const logged = (timesMs: number[], endMs: number, windowMs: number) =>
  timesMs.filter((timeMs) => timeMs > endMs - windowMs && timeMs <= endMs).length;

const policies = fc.record({ max: fc.integer({ min: 1, max: 60 }), windowSeconds: fc.integer({ min: 1, max: 5 }) });
const traffic = fc
  .array(fc.tuple(fc.integer({ min: 0, max: 3000 }), fc.integer({ min: 1, max: 40 })), { maxLength: 40 })
  .map((bursts) => {
    let timeMs = 0;
    return bursts.flatMap(([gapMs, burst]) => {
      timeMs += gapMs;
      return Array.from({ length: burst }, () => timeMs);
    });
  });
const states = policies.chain((policy) =>
  fc.record({
    policy: fc.constant(policy),
    previous: fc.integer({ min: 0, max: policy.max }),
    current: fc.integer({ min: 0, max: policy.max }),
    elapsedMs: fc.integer({ min: 0, max: policy.windowSeconds * 1000 - 1 }),
  }),
);

/** The decision `laterMs` later without other requests. */
function decideLater(
  previous: number,
  current: number,
  elapsedMs: number,
  laterMs: number,
  policy: { max: number; windowSeconds: number },
) {
  const windowMs = policy.windowSeconds * 1000;
  const turns = Math.floor((elapsedMs + laterMs) / windowMs);
  const then = elapsedMs + laterMs - turns * windowMs;
  if (turns === 0) return decide(previous, current, then, policy);
  return decide(turns === 1 ? current : 0, 0, then, policy);
}

describe('one decision', () => {
  const policy = { max: 60, windowSeconds: 60 };
  test.each([
    ['a fresh client', [0, 0, 0], { allowed: true, remaining: 59, resetMs: 120_000 }],
    ['the last of the quota', [0, 59, 1000], { allowed: true, remaining: 0, resetMs: 60_000 }],
    [
      'one too many, right at the beginning: fits in the next bucket',
      [0, 60, 0],
      { allowed: false, remaining: 0, resetMs: 61_000 },
    ],
    ['one too many, near the end', [0, 60, 59_000], { allowed: false, remaining: 0, resetMs: 2000 }],
    ['a full bucket before: fits in this bucket', [60, 0, 0], { allowed: false, remaining: 0, resetMs: 1000 }],
    ['half of the bucket before still weighs', [60, 0, 30_000], { allowed: true, remaining: 29, resetMs: 1000 }],
  ] as const)('%s', (_, [previous, current, elapsedMs], decision) => {
    expect(decide(previous, current, elapsedMs, policy)).toEqual(decision);
  });

  test('a refused request is allowed exactly after resetMs, not a millisecond earlier', () => {
    fc.assert(
      fc.property(states, ({ policy, previous, current, elapsedMs }) => {
        const decision = decide(previous, current, elapsedMs, policy);
        fc.pre(!decision.allowed);
        expect(decision.resetMs).toBeGreaterThanOrEqual(1);
        expect(decideLater(previous, current, elapsedMs, decision.resetMs, policy).allowed).toBe(true);
        expect(decideLater(previous, current, elapsedMs, decision.resetMs - 1, policy).allowed).toBe(false);
      }),
      { numRuns: fuzzRuns(200) },
    );
  });

  test('exactly `remaining` more are allowed now, and one more after resetMs', () => {
    fc.assert(
      fc.property(states, ({ policy, previous, current, elapsedMs }) => {
        const { allowed, remaining, resetMs } = decide(previous, current, elapsedMs, policy);
        fc.pre(allowed);
        const after = current + 1;
        if (remaining > 0) expect(decide(previous, after + remaining - 1, elapsedMs, policy).allowed).toBe(true);
        expect(decide(previous, after + remaining, elapsedMs, policy).allowed).toBe(false);
        const later = decideLater(previous, after, elapsedMs, resetMs, policy);
        const justBefore = decideLater(previous, after, elapsedMs, resetMs - 1, policy);
        expect(later.remaining + 1).toBeGreaterThan(remaining);
        expect(justBefore.allowed ? justBefore.remaining + 1 : 0).toBeLessThanOrEqual(remaining);
      }),
      { numRuns: fuzzRuns(200) },
    );
  });
});

describe('compared with an exact sliding log', () => {
  test('at most 2 max - 1 in any interval of a window, at most max in a bucket', () => {
    fc.assert(
      fc.property(policies, traffic, (policy, timesMs) => {
        const windowMs = policy.windowSeconds * 1000;
        const allowed = send(timesMs, policy);
        const counts = new Map<number, number>();
        for (const timeMs of allowed) {
          const bucket = Math.floor(timeMs / windowMs);
          counts.set(bucket, (counts.get(bucket) ?? 0) + 1);
        }
        for (const count of counts.values()) expect(count).toBeLessThanOrEqual(policy.max);
        for (const timeMs of allowed) expect(logged(allowed, timeMs, windowMs)).toBeLessThanOrEqual(2 * policy.max - 1);
      }),
      { numRuns: fuzzRuns(100) },
    );
  });

  test('that maximum is reached by a sender that fills the end of a bucket and the free part of the next', () => {
    const policy = { max: 10, windowSeconds: 1 };
    const burst = Array.from({ length: 10 }, () => 999);
    const trickle = Array.from({ length: 999 }, (_, index) => 1000 + index);
    expect(logged(send([...burst, ...trickle], policy), 1998, 1000)).toBe(19);
  });

  test('evenly spaced traffic of up to max - 1 a window is never refused', () => {
    const even = fc.record({
      max: fc.integer({ min: 2, max: 60 }),
      phaseMs: fc.integer({ min: 0, max: 999 }),
      slower: fc.double({ min: 1, max: 10, noNaN: true }),
    });
    fc.assert(
      fc.property(even, ({ max, phaseMs, slower }) => {
        const policy = { max, windowSeconds: 60 };
        const gapMs = Math.ceil((60_000 / (max - 1)) * slower);
        const timesMs = Array.from({ length: 5 * max }, (_, index) => phaseMs + index * gapMs);
        expect(send(timesMs, policy)).toEqual(timesMs);
      }),
    );
  });

  test('of faster even traffic at least max - 1 a window are allowed', () => {
    fc.assert(
      fc.property(policies, fc.integer({ min: 1, max: 10 }), ({ max, windowSeconds }, gapDivisor) => {
        const windowMs = windowSeconds * 1000;
        const gapMs = Math.max(1, Math.floor(windowMs / max / gapDivisor));
        const timesMs = Array.from({ length: Math.floor((6 * windowMs) / gapMs) }, (_, index) => index * gapMs);
        const allowed = send(timesMs, { max, windowSeconds });
        expect(allowed.length).toBeGreaterThanOrEqual(6 * (max - 1));
      }),
      { numRuns: fuzzRuns(100) },
    );
  });

  test('up to max requests that the log would allow are refused after a burst at the start of a bucket', () => {
    const policy = { max: 10, windowSeconds: 1 };
    const burst = (timeMs: number) => Array.from({ length: 10 }, () => timeMs);
    expect(send([...burst(0), ...burst(1000)], policy)).toEqual(burst(0));
  });

  test('no wait is longer than window + window / max', () => {
    fc.assert(
      fc.property(states, ({ policy, previous, current, elapsedMs }) => {
        const decision = decide(previous, current, elapsedMs, policy);
        fc.pre(!decision.allowed);
        const windowMs = policy.windowSeconds * 1000;
        expect(decision.resetMs).toBeLessThanOrEqual(windowMs + Math.ceil(windowMs / policy.max));
      }),
    );
  });
});
