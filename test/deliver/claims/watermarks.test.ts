import { expect, test } from 'vitest';
import { ClaimWatermarks } from '../../../server/deliver/claims/watermarks.ts';

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
