import { setTimeout as sleep } from 'node:timers/promises';
import { afterEach, expect, test } from 'vitest';
import { Breaker } from '../../server/ratelimit/breaker.ts';
import { until } from '../helpers/wait.ts';

const undo: (() => void)[] = [];
afterEach(() => {
  for (const step of undo.splice(0)) step();
});

/** A store that responds in `answerMs`, or fails when that is null; the breaker in front of it; and the observed calls. */
function breakerBefore(store: { answerMs: number | null }) {
  const seen = { probesAtMs: [] as number[], probesUnderWay: 0, probesUnderWayMax: 0, warnings: [] as string[] };
  const answer = async () => {
    if (store.answerMs === null) throw new Error('away');
    await sleep(store.answerMs);
    return 'counted';
  };
  const breaker = new Breaker({
    now: () => performance.now(),
    causeOf: (error) => (error as Error).message,
    warn: (message) => seen.warnings.push(message),
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

test('closed, it passes responses on', async () => {
  const { breaker, call } = breakerBefore({ answerMs: 1 });
  expect(await Promise.all([call(), call()])).toEqual(['counted', 'counted']);
  expect(breaker.isOpen).toBe(false);
});

test.each([
  ['that fails', null],
  ['that is too late', 2000],
] as const)('a call %s opens it and releases concurrent calls', async (_, answerMs) => {
  const { breaker, call } = breakerBefore({ answerMs });
  expect(await Promise.all([call(), call()])).toEqual([null, null]);
  expect(breaker.isOpen).toBe(true);
});

test('a call within its budget does not open it, however many came before', async () => {
  const { breaker, call } = breakerBefore({ answerMs: 20 });
  const calls = [];
  for (let turn = 0; turn < 10; turn += 1) {
    calls.push(call());
    await sleep(10);
  }
  expect(new Set(await Promise.all(calls))).toEqual(new Set(['counted']));
  expect(breaker.isOpen).toBe(false);
});

test('probes follow after 100 ms, 200 ms, and so on, and the first success closes it', async () => {
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
  const { breaker, seen, call } = breakerBefore({ answerMs: 700 });
  await call();
  await until(() => seen.probesAtMs.length === 2);
  expect(seen.probesUnderWayMax).toBe(1);
  expect(breaker.isOpen).toBe(true);
});

test('after its end it stays open, sends nothing and logs nothing', async () => {
  const { breaker, seen, call } = breakerBefore({ answerMs: null });
  const underWay = call();
  breaker.end();
  expect(await underWay).toBeNull();
  breaker.letThrough();
  expect(breaker.isOpen).toBe(true);
  expect(seen).toMatchObject({ probesAtMs: [], warnings: [] });
});
