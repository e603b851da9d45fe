import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { VALUES_MAX, WriteBehind } from '../../../server/receive/ingest/write-behind.ts';

const EVERY_MS = 5_000;
const MANY_EVERY_MS = 60_000;
/** More than the pauses between the writes of the values that the tests have. */
const WRITTEN_MS = 5_000;
let written: ReadonlyMap<string, number>[] = [];
beforeEach(() => {
  vi.useFakeTimers();
  written = [];
});
afterEach(() => {
  vi.useRealTimers();
});

function start(options?: { isUrgent: boolean }): WriteBehind {
  return new WriteBehind(
    async (values) => {
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
