import { expect, test } from 'vitest';
import { ClaimDays } from '../../../server/deliver/claims/claim-marks.ts';
import { uuidAt } from '../../../server/store/ids.ts';

const AT_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const eventAt = (time: string) => uuidAt(Date.parse(time));

test('a claim reads the events of today, then of the days of the claim before', () => {
  const days = new ClaimDays();
  const today = { from: '2026-01-31T00:00:00.000Z', to: '2026-02-01T00:00:00.000Z' };
  expect(days.forClaim('a', AT_MS)).toEqual(today);
  days.record('a', []);
  expect(days.forClaim('a', AT_MS)).toEqual(today);
  days.record('a', [eventAt('2026-01-30T00:00:00.000Z'), eventAt('2026-01-28T23:59:59.999Z')]);
  expect(days.forClaim('a', AT_MS)).toEqual({ from: '2026-01-28T00:00:00.000Z', to: '2026-01-31T00:00:00.000Z' });
  expect(days.forClaim('b', AT_MS)).toEqual(today);
});

test('the days of 10,000 agents are remembered; one more clears them all', () => {
  const days = new ClaimDays();
  for (let i = 0; i < 10_001; i++) days.record(String(i), [eventAt('2026-01-01T00:00:00.000Z')]);
  expect(days.forClaim('9999', AT_MS).from).toBe('2026-01-31T00:00:00.000Z');
  expect(days.forClaim('10000', AT_MS).from).toBe('2026-01-01T00:00:00.000Z');
});
