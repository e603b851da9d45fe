import { expect, test } from 'vitest';
import { SharedLookup } from '../../server/store/shared-lookup.ts';

/** A read that the test ends. */
function controlled() {
  const reads: { keys: readonly string[]; end: (error?: Error) => void }[] = [];
  const read = (keys: readonly string[]) =>
    new Promise<Map<string, string>>((resolve, reject) => {
      const rows = new Map(keys.filter((key) => key.startsWith('known')).map((key) => [key, `row of ${key}`]));
      reads.push({ keys, end: (error) => (error === undefined ? resolve(rows) : reject(error)) });
    });
  return { reads, lookup: new SharedLookup<string>(read) };
}

test('1,500 look-ups during two queries take two more, of at most 1,000 keys, and each gets its own row', async () => {
  const { reads, lookup } = controlled();
  const first = [lookup.find('known 1'), lookup.find('unknown')];
  const rest = Array.from({ length: 1_500 }, (_, i) => lookup.find(i % 2 === 0 ? `known ${i}` : `unknown ${i}`));
  expect(reads.map(({ keys }) => keys)).toEqual([['known 1'], ['unknown']]);
  for (const { end } of [...reads]) end();
  expect(await Promise.all(first)).toEqual(['row of known 1', undefined]);
  await new Promise(setImmediate);
  expect(reads.slice(2).map(({ keys }) => keys.length)).toEqual([1_000, 500]);
  for (const { end } of reads.slice(2)) end();
  const found = await Promise.all(rest);
  expect(found[0]).toBe('row of known 0');
  expect(found.filter((row) => row !== undefined)).toHaveLength(750);
});

test('a look-up does not get the result of a query that began before it', async () => {
  const { reads, lookup } = controlled();
  const before = [lookup.find('known'), lookup.find('known')];
  const after = [lookup.find('known'), lookup.find('known')];
  for (const { end } of [...reads]) end();
  await Promise.all(before);
  await new Promise(setImmediate);
  expect(reads.slice(2).map(({ keys }) => keys)).toEqual([['known']]);
  reads[2]!.end();
  expect(await Promise.all(after)).toEqual(['row of known', 'row of known']);
});

test('a failed query fails those that wait too, and the next look-up queries again', async () => {
  const { reads, lookup } = controlled();
  const failing = Array.from({ length: 5 }, () => lookup.find('known').catch((error: Error) => error.message));
  for (const { end } of [...reads]) end(new Error('away'));
  expect(await Promise.all(failing)).toEqual(Array(5).fill('away'));
  const again = lookup.find('known');
  reads.at(-1)!.end();
  expect(await again).toBe('row of known');
});
