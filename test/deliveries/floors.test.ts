import { expect, test } from 'vitest';
import { Floors } from '../../server/deliveries/floors.ts';

const AT_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const everywhere = '-infinity';
const tenSecondsBefore = '2026-01-31T11:59:50.000Z';

test('the first claim of an agent searches from its first delivery', () => {
  const floors = new Floors();
  expect(floors.forClaim('a', 0)).toBe(everywhere);
  expect(floors.forLook('a')).toBe(everywhere);
});

test('the next claim searches from the oldest delivery of the previous one, with a margin', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS, 0);
  expect(floors.forClaim('a', 14_999)).toBe(tenSecondsBefore);
  expect(floors.forLook('a')).toBe(tenSecondsBefore);
  expect(floors.forLook('b')).toBe(everywhere);
});

test('once in 15 seconds a claim searches everything, however often the floor is updated', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS, 0);
  floors.learn('a', AT_MS, 14_000);
  expect(floors.forClaim('a', 15_000)).toBe(everywhere);
  expect(floors.forClaim('a', 15_001)).toBe(tenSecondsBefore);
  expect(floors.forClaim('a', 30_000)).toBe(everywhere);
});

test('a delivery below the floor lowers the floor', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS + 3_600_000, 0);
  floors.learn('a', AT_MS, 1);
  expect(floors.forLook('a')).toBe(tenSecondsBefore);
});

test('a forgotten agent is searched completely', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS, 0);
  floors.forget('a');
  expect(floors.forClaim('a', 1)).toBe(everywhere);
});

test('10,000 agents are remembered; one more clears them all', () => {
  const floors = new Floors();
  for (let i = 0; i < 10_000; i++) floors.learn(String(i), AT_MS, 0);
  expect(floors.forLook('0')).toBe(tenSecondsBefore);
  floors.learn('one more', AT_MS, 0);
  expect(floors.forLook('0')).toBe(everywhere);
  expect(floors.forLook('one more')).toBe(tenSecondsBefore);
});
