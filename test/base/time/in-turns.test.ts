import { expect, test } from 'vitest';
import { inTurns } from '../../../server/base/time/every.ts';

test('works run two at a time, oldest first, also after one that fails', async () => {
  const inTurn = inTurns(2);
  const order: string[] = [];
  const ends: (() => void)[] = [];
  const work = (name: string) =>
    inTurn(() => {
      order.push(name);
      return new Promise<void>((resolve) => ends.push(resolve));
    });
  const failed = inTurn(() => Promise.reject(new Error('lost'))).catch((error) => error.message);
  const works = ['a', 'b', 'c'].map(work);
  expect(await failed).toBe('lost');
  await new Promise(setImmediate);
  expect(order).toEqual(['a', 'b']);
  ends[0]!();
  await works[0];
  await new Promise(setImmediate);
  expect(order).toEqual(['a', 'b', 'c']);
  for (const end of ends) end();
  await Promise.all(works);
});
