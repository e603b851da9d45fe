import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { Breaker, BUDGET_MS } from '../../../server/base/ratelimit/breaker.ts';
import { until } from '../../helpers/wait.ts';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0)) step();
});

/**
 * A store that responds in `answerMs`, or fails when that is null; the breaker in front of it; and the observed calls.
 * @param now a clock that stands still finds no call late, however busy the machine is
 */
function breakerBefore(store: { answerMs: number | null }, now = () => 0, calmMs = 0) {
  const seen = { probesAtMs: [] as number[], probesUnderWay: 0, probesUnderWayMax: 0, reports: [] as object[] };
  const answer = async () => {
    if (store.answerMs === null) throw new Error('away');
    await sleep(store.answerMs);
    return 'counted';
  };
  const breaker = new Breaker({
    now,
    causeOf: (error) => (error as Error).message,
    report: {
      began: (start) => seen.reports.push(start),
      ended: (end) => seen.reports.push(end),
    },
    calmMs,
    probe: async () => {
      seen.probesAtMs.push(performance.now());
      seen.probesUnderWay += 1;
      seen.probesUnderWayMax = Math.max(seen.probesUnderWayMax, seen.probesUnderWay);
      await answer().finally(() => {
        seen.probesUnderWay -= 1;
      });
    },
  });
  undo.push(() => breaker.end());
  return { breaker, seen, call: () => breaker.run('key', answer) };
}

/** A call that is in progress until `answer`. */
function held(breaker: Breaker) {
  let answer!: () => void;
  const work = new Promise<string>((resolve) => {
    answer = () => resolve('counted');
  });
  return { outcome: breaker.run('key', () => work), answer };
}

test('a call within its budget does not open the breaker, however many came before', async () => {
  let nowMs = 0;
  const { breaker } = breakerBefore({ answerMs: null }, () => nowMs);
  let last = held(breaker);
  for (let turn = 0; turn < 10; turn += 1) {
    nowMs += BUDGET_MS - 10;
    const next = held(breaker);
    await sleep(BUDGET_MS / 5);
    last.answer();
    expect(await last.outcome).toBe('counted');
    last = next;
  }
  expect(breaker.isOpen).toBe(false);
});

test('a busy event loop of the process does not count as a failure of the store: a call is excused once', async () => {
  let nowMs = 0;
  const { breaker } = breakerBefore({ answerMs: null }, () => nowMs);
  const [answered, silent] = [held(breaker), held(breaker)];
  // The timer of the breaker is late.
  nowMs = 3 * BUDGET_MS;
  await sleep(BUDGET_MS + 10);
  answered.answer();
  expect(await answered.outcome).toBe('counted');
  expect(await silent.outcome).toBeNull();
  expect(breaker.isOpen).toBe(true);
});

test('probes follow after 100 ms, 200 ms, and so on, and the first success closes the breaker', async () => {
  const store = { answerMs: null as number | null };
  const { breaker, seen, call } = breakerBefore(store);
  const openedMs = performance.now();
  await call();
  await until(() => seen.probesAtMs.length === 3);
  const gapsMs = seen.probesAtMs.map((atMs, index) => atMs - (seen.probesAtMs[index - 1] ?? openedMs));
  for (const [index, leastMs] of [100, 200, 400].entries()) expect(gapsMs[index]).toBeGreaterThanOrEqual(leastMs - 2);
  store.answerMs = 1;
  await until(() => !breaker.isOpen);
  expect(await call()).toBe('counted');
});

test('one probe at a time: a hung one is awaited', async () => {
  const { breaker, seen, call } = breakerBefore({ answerMs: 700 }, () => performance.now());
  await call();
  await until(() => seen.probesAtMs.length === 2);
  expect(seen.probesUnderWayMax).toBe(1);
  expect(breaker.isOpen).toBe(true);
});

test('an outage is reported when it begins and, however often the breaker opened, once when it has ended', async () => {
  let nowMs = 0;
  const store = { answerMs: null as number | null };
  const { breaker, seen, call } = breakerBefore(store, () => nowMs, 400);
  await Promise.all([call(), call()]);
  expect(seen.reports).toEqual([{ reason: 'away' }]);
  breaker.letThrough();
  store.answerMs = 0;
  nowMs = 60_000;
  await until(() => !breaker.isOpen);
  breaker.open('late', 'key');
  breaker.letThrough();
  await until(() => !breaker.isOpen);
  expect(seen.reports).toHaveLength(1);
  await until(() => seen.reports.length === 2);
  const end = { reason: 'late', seconds: 60, interruptions: 2, allowed_uncounted: 4 };
  expect(seen.reports).toEqual([{ reason: 'away' }, end]);

  breaker.open('late again', 'key');
  expect(seen.reports).toEqual([{ reason: 'away' }, end, { reason: 'late again' }]);
});
