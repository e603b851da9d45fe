/** The memory of bodies: chunks of incomplete ones, and slabs of complete ones. */
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

const MIB = 1_048_576;

test('bodies of a cell that stands still keep no memory from those of other cells', () => {
  const budget = new ByteBudget(8 * MIB);
  const arena = new SlabArena(budget);
  const body = new Uint8Array(1_024);
  for (let i = 0; i < 40_000; i++) {
    // One body in 100 is of the cell whose events are not committed.
    const cell = i % 100 === 0 ? 1 : 0;
    const held = arena.hold([], body, body.length, cell);
    expect(held).not.toBeNull();
    if (cell === 0) arena.release(held!);
  }
  expect(budget.heldBytes).toBe(MIB);
});

test('with more cells than slabs, a body takes the room that is left', () => {
  const budget = new ByteBudget(2 * MIB);
  const arena = new SlabArena(budget);
  const held = [0, 1, 2, 3].map((cell) => arena.hold([], new Uint8Array(400_000), 400_000, cell));
  expect(held.every((one) => one !== null)).toBe(true);
  expect(arena.hold([], new Uint8Array(400_000), 400_000, 4)).toBeNull();
  for (const one of held) arena.release(one!);
  expect(budget.heldBytes).toBe(0);
});

test('with as many cells as slabs, incoming chunks have room', () => {
  const budget = new ByteBudget(8 * MIB);
  const arena = new SlabArena(budget);
  const held = Array.from({ length: 8 }, (_, cell) => arena.hold([], new Uint8Array(1_024), 1_024, cell));
  expect(budget.heldBytes).toBe(4 * MIB);
  for (const one of held) arena.release(one!);
  expect(budget.heldBytes).toBe(0);
});
