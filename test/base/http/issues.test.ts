import { expect, test } from 'vitest';
import { z } from 'zod';
import { check } from '../../../server/base/http/issues.ts';

const names = (count: number) => Array.from({ length: count }, (_, i) => `k${i}`);
const unknown = (count: number) => Object.fromEntries(names(count).map((name) => [name, 0]));
const strict = z.strictObject({ email: z.string() });

/** Numbers of reported issues and of issues that are only counted. */
function refused(schema: z.ZodType, value: unknown): [reported: number, omitted: number] {
  const result = check(schema, value);
  if ('data' in result) throw new Error('nothing is wrong');
  return [result.issues.length, result.omitted];
}

test('invalid values, and fields of several objects, are reported up to the same limit', () => {
  expect(refused(z.array(z.number()), names(25))).toEqual([20, 5]);
  expect(refused(z.array(strict), [unknown(12), unknown(12)])).toEqual([20, 6]);
});

test('a name chosen by the sender is reported truncated', () => {
  const result = check(strict, { email: '', ['x'.repeat(1_000_000)]: 0 });
  expect(result).toEqual({ issues: [{ path: [`${'x'.repeat(100)}…`], detail: expect.any(String) }], omitted: 0 });
});
