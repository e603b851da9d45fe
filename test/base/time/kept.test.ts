import { setImmediate as turn } from 'node:timers/promises';
import { expect, test } from 'vitest';
import { keptWhenLarge } from '../../../server/base/time/kept.ts';

/** A value that counts its reads, with a clock of its own. */
function counted({ isLarge = true } = {}) {
  const state = { nowMs: 0, reads: 0, fails: false };
  const read = keptWhenLarge(
    100,
    async (given: string) => {
      if (state.fails) throw new Error('refused');
      state.reads++;
      return { value: `${given} ${state.reads}`, isLarge };
    },
    () => state.nowMs,
  );
  return { state, read };
}

test('a value that is not large is read each time', async () => {
  const { read } = counted({ isLarge: false });
  expect([await read('a'), await read('b')]).toEqual(['a 1', 'b 2']);
});

test('a large value is kept until its time, whatever is asked for', async () => {
  const { state, read } = counted();
  await read('a');
  state.nowMs = 99;
  expect(await read('b')).toBe('a 1');
});

test('calls during the first read share it', async () => {
  const { state, read } = counted();
  expect(await Promise.all([read('a'), read('b'), read('c')])).toEqual(['a 1', 'a 1', 'a 1']);
  expect(state.reads).toBe(1);
});

test('calls during a first read of a value that is not large, or that fails, read themselves', async () => {
  const small = counted({ isLarge: false });
  expect(await Promise.all([small.read('a'), small.read('b')])).toEqual(['a 1', 'b 2']);
  const failing = counted();
  failing.state.fails = true;
  const both = await Promise.allSettled([failing.read('a'), failing.read('b')]);
  expect(both.map(({ status }) => status)).toEqual(['rejected', 'rejected']);
});

test('after its time a call gets the known value and starts the next read', async () => {
  const { state, read } = counted();
  await read('a');
  state.nowMs = 100;
  expect(await read('b')).toBe('a 1');
  await turn();
  expect(await read('c')).toBe('b 2');
  expect(state.reads).toBe(2);
});

test('a value that is twice as old is not used', async () => {
  const { state, read } = counted();
  await read('a');
  state.nowMs = 200;
  expect(await Promise.all([read('b'), read('c')])).toEqual(['b 2', 'b 2']);
});

test('a failed read rejects only the calls that wait for it, and is not kept', async () => {
  const { state, read } = counted();
  await read('a');
  state.fails = true;
  state.nowMs = 150;
  expect(await read('b')).toBe('a 1');
  await turn();
  state.nowMs = 200;
  await expect(read('c')).rejects.toThrow('refused');
  state.fails = false;
  expect(await read('d')).toBe('d 2');
});
