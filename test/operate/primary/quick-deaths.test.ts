import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { QuickDeaths } from '../../../server/operate/primary/deaths.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
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
