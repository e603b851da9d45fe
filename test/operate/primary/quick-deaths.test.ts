import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { QuickDeaths } from '../../../server/operate/primary/quick-deaths.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['setTimeout'] });
});
afterEach(() => {
  vi.useRealTimers();
});

const dead = (livedMs: number) => ({ state: 'serving' as const, livedMs });

function after(count: number): QuickDeaths {
  const deaths = new QuickDeaths();
  for (let number = 0; number < count; number++) deaths.onDeath(dead(2_999));
  return deaths;
}

test('the tenth quick death in a row is hopeless, unless a proven process serves', () => {
  expect(after(9).hopeless([], 1)).toBeNull();
  expect(after(10).hopeless([dead(2_999)], 1)).toMatch(
    /^10 consecutive .* ended before they served, or within 3 s .*\(last: 1\)$/,
  );
  expect(after(10).hopeless([dead(3_000)], 1)).toBeNull();
});

test('a process that ends after 3 seconds is not a quick death, and one that never served always is', () => {
  const deaths = after(9);
  expect(deaths.onDeath(dead(3_000))).toBeNull();
  expect(deaths.hopeless([], 1)).toBeNull();
  expect(deaths.onDeath({ state: 'starting', livedMs: 60_000 })).toBeLessThanOrEqual(5_000);
  expect(deaths.hopeless([], 1)).not.toBeNull();
});

test('the count of quick deaths begins again when a process has served for 3 seconds', () => {
  const deaths = after(9);
  deaths.onReady({ state: 'ended' });
  vi.advanceTimersByTime(3_000);
  deaths.onReady({ state: 'serving' });
  deaths.onDeath(dead(0));
  expect(deaths.hopeless([], 1)).not.toBeNull();
  vi.advanceTimersByTime(3_000);
  deaths.onDeath(dead(0));
  expect(deaths.hopeless([], 1)).toBeNull();
});
