import { expect, test } from 'vitest';
import { Chunks } from '../../../server/base/http/body.ts';
import { ByteBudget, SlabArena } from '../../../server/base/http/memory.ts';

test.each([1, 10, 100, 1_000])(
  'chunks of %i bytes are merged, in order, until there are few for their bytes',
  (size) => {
    const body = Uint8Array.from({ length: 200_000 }, (_, i) => i % 251);
    const chunks = new Chunks();
    for (let at = 0; at < body.length; at += size) {
      chunks.add(body.subarray(at, at + size));
      expect(chunks.all.length).toBeLessThanOrEqual(16 + chunks.bytes / 1_024);
    }
    expect(chunks.bytes).toBe(body.length);
    const held = new SlabArena(new ByteBudget(1_048_576)).hold(chunks.all, new Uint8Array(0), body.length);
    expect(Buffer.from(held!.bytes).equals(body)).toBe(true);
  },
);

test('chunks of the size of a TCP segment are not copied again', () => {
  const chunks = new Chunks();
  for (let i = 0; i < 700; i++) chunks.add(new Uint8Array(1_460));
  expect(chunks.all.map(({ length }) => length)).toEqual(Array.from({ length: 700 }, () => 1_460));
});
