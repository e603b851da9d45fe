import { expect, test } from 'vitest';
import { ClaimDays, ClaimWatermarks } from '../../../server/deliver/claims/watermarks.ts';
import { uuidAt } from '../../../server/store/ids.ts';

const AT_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const everywhere = '-infinity';
const tenSecondsBefore = '2026-01-31T11:59:50.000Z';

test('the first claim of an agent searches from its first delivery', () => {
  const watermarks = new ClaimWatermarks();
  expect(watermarks.forClaim('a', 0)).toBe(everywhere);
  expect(watermarks.forCheck('a')).toBe(everywhere);
});

test('the next claim searches from the oldest delivery of the previous one, with a margin', () => {
  const watermarks = new ClaimWatermarks();
  watermarks.learn('a', AT_MS, 0);
  expect(watermarks.forClaim('a', 14_999)).toBe(tenSecondsBefore);
  expect(watermarks.forCheck('a')).toBe(tenSecondsBefore);
  expect(watermarks.forCheck('b')).toBe(everywhere);
});

test('once in 15 seconds a claim searches everything, however often the watermark is updated', () => {
  const watermarks = new ClaimWatermarks();
  watermarks.learn('a', AT_MS, 0);
  watermarks.learn('a', AT_MS, 14_000);
  expect(watermarks.forClaim('a', 15_000)).toBe(everywhere);
  expect(watermarks.forClaim('a', 15_001)).toBe(tenSecondsBefore);
  expect(watermarks.forClaim('a', 30_000)).toBe(everywhere);
});

test('a delivery below the watermark lowers the watermark', () => {
  const watermarks = new ClaimWatermarks();
  watermarks.learn('a', AT_MS + 3_600_000, 0);
  watermarks.learn('a', AT_MS, 1);
  expect(watermarks.forCheck('a')).toBe(tenSecondsBefore);
});

test('a forgotten agent is searched completely', () => {
  const watermarks = new ClaimWatermarks();
  watermarks.learn('a', AT_MS, 0);
  watermarks.forget('a');
  expect(watermarks.forClaim('a', 1)).toBe(everywhere);
});

test('10,000 agents are remembered; one more clears them all', () => {
  const watermarks = new ClaimWatermarks();
  for (let i = 0; i < 10_000; i++) watermarks.learn(String(i), AT_MS, 0);
  expect(watermarks.forCheck('0')).toBe(tenSecondsBefore);
  watermarks.learn('one more', AT_MS, 0);
  expect(watermarks.forCheck('0')).toBe(everywhere);
  expect(watermarks.forCheck('one more')).toBe(tenSecondsBefore);
});

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
