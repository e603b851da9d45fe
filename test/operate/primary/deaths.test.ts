import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEATHS_KEPT } from '../../../server/model/machines.ts';
import { DeathLog, QuickDeaths } from '../../../server/operate/primary/deaths.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance', 'setTimeout'], now: Date.UTC(2026, 0, 31, 12) });
});
afterEach(() => {
  vi.useRealTimers();
});

const dead = (pid: number) => ({ pid, reason: 'SIGKILL', livedMs: 1_000.4 });

test('a death has its time, its reason, and how long not all processes served', () => {
  const log = new DeathLog();
  expect(log.known).toEqual({ total: 0, newest: [] });
  log.add(dead(77));
  vi.advanceTimersByTime(300);
  log.add({ ...dead(78), reason: 1 });
  const [second, first] = log.known.newest;
  expect([second, first]).toEqual([
    { at: '2026-01-31T12:00:00.300Z', pid: 78, reason: 'exit code 1', ran_ms: 1_000, recovered_ms: null },
    { at: '2026-01-31T12:00:00.000Z', pid: 77, reason: 'SIGKILL', ran_ms: 1_000, recovered_ms: null },
  ]);
  vi.advanceTimersByTime(200);
  log.recovered();
  vi.advanceTimersByTime(1_000);
  log.recovered();
  expect([second!.recovered_ms, first!.recovered_ms]).toEqual([200, 500]);
});

test(`the last ${DEATHS_KEPT} deaths are kept, newest first, and all are counted`, () => {
  const log = new DeathLog();
  for (let pid = 1; pid <= DEATHS_KEPT; pid++) log.add(dead(pid));
  expect([log.known.newest.length, log.known.newest.at(-1)!.pid]).toEqual([DEATHS_KEPT, 1]);
  log.add(dead(DEATHS_KEPT + 1));
  const { total, newest } = log.known;
  expect([total, newest.length, newest[0]!.pid, newest.at(-1)!.pid]).toEqual([
    DEATHS_KEPT + 1,
    DEATHS_KEPT,
    DEATHS_KEPT + 1,
    2,
  ]);
});

/** How a process ended, and how long it had run. */
const served = (livedMs: number) => ({ state: 'serving' as const, livedMs });
const unserved = { state: 'starting' as const, livedMs: 2_999 };

function after(count: number, death: typeof unserved | ReturnType<typeof served> = unserved): QuickDeaths {
  const deaths = new QuickDeaths();
  for (let number = 0; number < count; number++) deaths.onDeath(death);
  return deaths;
}

test('the tenth process in a row that ends before it serves is hopeless, unless a proven process serves', () => {
  expect(after(9).hopeless([], 1)).toBeNull();
  expect(after(10).hopeless([served(2_999)], 1)).toBe('10 consecutive processes ended before they served (last: 1)');
  expect(after(10).hopeless([served(3_000)], 1)).toBeNull();
});

test('processes that served are never hopeless, however soon they end: a client may have ended them', () => {
  const deaths = after(100, served(100));
  expect(deaths.hopeless([], 1)).toBeNull();
  expect(deaths.onDeath(served(100))).toBeGreaterThan(0);
  const mixed = after(9);
  mixed.onReady({ state: 'serving' });
  mixed.onDeath(served(100));
  mixed.onDeath(unserved);
  expect(mixed.hopeless([], 1)).toBeNull();
});

test('forks pause after a process that ends within 3 seconds, or never served', () => {
  const deaths = after(9);
  expect(deaths.onDeath(served(3_000))).toBeNull();
  expect(deaths.onDeath(served(2_999))).toBeLessThanOrEqual(5_000);
  expect(deaths.onDeath({ state: 'starting', livedMs: 60_000 })).toBeLessThanOrEqual(5_000);
  expect(deaths.hopeless([], 1)).not.toBeNull();
});

test('the pause is short again when a process has served for 3 seconds', () => {
  const deaths = after(20);
  deaths.onReady({ state: 'ended' });
  vi.advanceTimersByTime(3_000);
  expect(deaths.onDeath(unserved)).toBeGreaterThan(1_000);
  deaths.onReady({ state: 'serving' });
  vi.advanceTimersByTime(3_000);
  expect(deaths.onDeath(unserved)).toBeLessThanOrEqual(100);
});
