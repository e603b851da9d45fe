import { expect, test } from 'vitest';
import { Floors } from '../../server/deliveries/floors.ts';

const AT_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const everywhere = '-infinity';
const tenSecondsBefore = '2026-01-31T11:59:50.000Z';

test('before its first claim an agent is looked at from the first delivery on', () => {
  const floors = new Floors();
  expect(floors.forClaim('a', 0)).toBe(everywhere);
  expect(floors.forLook('a')).toBe(everywhere);
});

test('the oldest delivery that a claim met is where the next one begins, with a margin', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS, 0);
  expect(floors.forClaim('a', 14_999)).toBe(tenSecondsBefore);
  expect(floors.forLook('a')).toBe(tenSecondsBefore);
  expect(floors.forLook('b')).toBe(everywhere);
});

test('once in 15 seconds a claim looks at everything, however often it learns', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS, 0);
  floors.learn('a', AT_MS, 14_000);
  expect(floors.forClaim('a', 15_000)).toBe(everywhere);
  expect(floors.forClaim('a', 15_001)).toBe(tenSecondsBefore);
  expect(floors.forClaim('a', 30_000)).toBe(everywhere);
});

test('what is found below lowers the floor again', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS + 3_600_000, 0);
  floors.learn('a', AT_MS, 1);
  expect(floors.forLook('a')).toBe(tenSecondsBefore);
});

test('a forgotten agent is looked at everywhere', () => {
  const floors = new Floors();
  floors.learn('a', AT_MS, 0);
  floors.forget('a');
  expect(floors.forClaim('a', 1)).toBe(everywhere);
});

test('10,000 agents are remembered; one more, and all are learnt anew', () => {
  const floors = new Floors();
  for (let i = 0; i < 10_000; i++) floors.learn(String(i), AT_MS, 0);
  expect(floors.forLook('0')).toBe(tenSecondsBefore);
  floors.learn('one more', AT_MS, 0);
  expect(floors.forLook('0')).toBe(everywhere);
  expect(floors.forLook('one more')).toBe(tenSecondsBefore);
});
