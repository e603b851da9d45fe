import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { Slot, SPARSE_EVERY_MS, SPARSE_FROM, VALUES_MAX, WriteBehind } from '../../server/store/write-behind.ts';

const EVERY_MS = 5_000;
const MANY_EVERY_MS = 60_000;
/** Time in which all values of a test are written, pauses included. */
const WRITTEN_MS = 5_000;
let written: ReadonlyMap<string, number>[] = [];
/** Called at the start of each write. */
let before = () => {};
beforeEach(() => {
  vi.useFakeTimers();
  written = [];
  before = () => {};
});
afterEach(() => {
  vi.useRealTimers();
});

function start(options?: { isUrgent?: boolean; rowsOf?: (value: number) => number }): WriteBehind {
  return new WriteBehind(
    async (values) => {
      before();
      written.push(values);
    },
    (one, other) => one + other,
    options,
  );
}

function note(behind: WriteBehind, ids: number): void {
  for (let id = 0; id < ids; id++) behind.note(`${id}`, 1);
}

test('as many values as one write takes are written every few seconds', async () => {
  const behind = start();
  note(behind, VALUES_MAX);
  await vi.advanceTimersByTimeAsync(EVERY_MS - 1);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1);
  expect(written.map(({ size }) => size)).toEqual([VALUES_MAX]);
});

test('more values wait a minute, and those of one id share a write', async () => {
  const behind = start();
  note(behind, VALUES_MAX + 1);
  await vi.advanceTimersByTimeAsync(MANY_EVERY_MS - 1);
  note(behind, VALUES_MAX + 1);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1 + WRITTEN_MS);
  expect(written.map(({ size }) => size)).toEqual([VALUES_MAX, 1]);
  expect(written[1]!.get(`${VALUES_MAX}`)).toBe(2);
});

test('tens of thousands of values wait five minutes', async () => {
  const behind = start();
  note(behind, SPARSE_FROM);
  await vi.advanceTimersByTimeAsync(SPARSE_EVERY_MS - 1);
  expect(written).toEqual([]);
  await vi.advanceTimersByTimeAsync(1 + 2 * WRITTEN_MS);
  expect(written).toHaveLength(SPARSE_FROM / VALUES_MAX);
});

test('more values are written every few seconds if they are urgent', async () => {
  const behind = start({ isUrgent: true });
  note(behind, VALUES_MAX + 1);
  await vi.advanceTimersByTimeAsync(EVERY_MS + WRITTEN_MS);
  expect(written.map(({ size }) => size)).toEqual([VALUES_MAX, 1]);
});

test('a flush waits for no pause, not even for that of a write under way', async () => {
  const behind = start({ isUrgent: true });
  note(behind, 2 * VALUES_MAX + 1);
  await vi.advanceTimersByTimeAsync(EVERY_MS);
  expect(written.map(({ size }) => size)).toEqual([VALUES_MAX]);
  behind.note('later', 1);
  // Time stands still.
  await behind.flush();
  expect(written.map(({ size }) => size)).toEqual([VALUES_MAX, VALUES_MAX, 1, 1]);
});

test('a value that is written as several rows counts as so many', async () => {
  const behind = start({ rowsOf: (value) => value });
  behind.note('a', VALUES_MAX);
  behind.note('b', 1);
  await behind.flush();
  expect(written.map((values) => [...values])).toEqual([[['a', VALUES_MAX]], [['b', 1]]]);
});

test('slots of one id, and what is noted by the id, are written as one value', async () => {
  const behind = start();
  const [slot, other] = [new Slot('a'), new Slot('a')];
  behind.note('a', 1);
  behind.noteIn(slot, 2);
  behind.noteIn(other, 4);
  behind.noteIn(slot, 8);
  await behind.flush();
  behind.noteIn(slot, 16);
  await behind.flush();
  expect(written.map((values) => [...values])).toEqual([[['a', 15]], [['a', 16]]]);
});

test('no value is lost or written twice when a write between others fails', async () => {
  const behind = start();
  const slots = Array.from({ length: 2 * VALUES_MAX + 1 }, (_, id) => new Slot(`${id}`));
  const noteAll = (value: number) => {
    for (const slot of slots) behind.noteIn(slot, value);
  };
  before = () => {
    // The slots of this write are empty, and the next ones wait.
    noteAll(2);
    if (written.length === 1) throw new Error('no database');
  };
  noteAll(1);
  await behind.flush();
  expect(written).toHaveLength(1);
  before = () => {};
  await behind.flush();
  const sums = new Map<string, number>();
  for (const values of written) for (const [id, value] of values) sums.set(id, (sums.get(id) ?? 0) + value);
  expect([...sums.values()]).toEqual(slots.map(() => 5));
});
