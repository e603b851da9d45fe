/** How long a page waits while the live counters say that the database is down. */
import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { withPatience } from '../../../server/pages/serve/outages.ts';

beforeEach(() => void vi.useFakeTimers());
afterEach(() => void vi.useRealTimers());

const outagesOf = (down: 'database' | 'spooling' | null) => ({
  database: down === 'database',
  spooling: down === 'spooling',
  rate_limits: false,
});
const answerAfter = (ms: number) => new Promise<string>((resolve) => setTimeout(resolve, ms, 'answer'));

test.each(['database', 'spooling'] as const)('a page waits a second for a database that is down: %s', async (down) => {
  const refused = expect(withPatience(answerAfter(5_000), () => outagesOf(down))).rejects.toMatchObject({
    problem: { code: 'database_unavailable' },
  });
  await vi.advanceTimersByTimeAsync(1_000);
  await refused;
  const early = withPatience(answerAfter(900), () => outagesOf(down));
  await vi.advanceTimersByTimeAsync(900);
  expect(await early).toBe('answer');
});

test('a page that waits while the database goes down is answered within a second of it', async () => {
  let down: 'database' | null = null;
  const refused = expect(withPatience(answerAfter(10_000), () => outagesOf(down))).rejects.toMatchObject({
    problem: { code: 'database_unavailable' },
  });
  await vi.advanceTimersByTimeAsync(2_900);
  down = 'database';
  await vi.advanceTimersByTimeAsync(1_000);
  await refused;
});

test('a page that takes longer than a second is answered when the outage ends before it is over, and without an outage', async () => {
  let down: 'database' | null = 'database';
  const begun = [withPatience(answerAfter(5_000), () => outagesOf(down))];
  down = null;
  begun.push(withPatience(answerAfter(5_000), () => outagesOf(down)));
  await vi.advanceTimersByTimeAsync(5_000);
  expect(await Promise.all(begun)).toEqual(['answer', 'answer']);
});

test('a failure is that of the page', async () => {
  const failing = Promise.reject(new Error('no such column'));
  await expect(withPatience(failing, () => outagesOf('database'))).rejects.toThrow('no such column');
});
