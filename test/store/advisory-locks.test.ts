import { expect, test } from 'vitest';
import { advisoryLocks } from '../../server/store/advisory-locks.ts';

test('all locks differ', () => {
  const numbers = Object.values(advisoryLocks);
  expect(new Set(numbers).size).toBe(numbers.length);
});
