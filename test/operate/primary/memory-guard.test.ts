import { beforeEach, expect, test } from 'vitest';
import { MINUTE_MS } from '../../../server/base/time/durations.ts';
import { memoryGuard } from '../../../server/operate/primary/memory-guard.ts';

const LIMIT = 1_000;

interface Slot {
  pid: number;
}

let nowMs: number;
let limit: number | undefined;
/** Serving processes and their memory. */
let serving: Slot[];
let bytes: Map<number, number>;
/** Pids in the order of their replacement. */
let replaced: number[];
let events: string[];
let fail: string | null;
let next: number;
let counted: number;

beforeEach(() => {
  [nowMs, limit, next, counted, fail] = [0, LIMIT, 100, 0, null];
  [serving, replaced, events] = [[{ pid: 1 }, { pid: 2 }], [], []];
  bytes = new Map([
    [1, LIMIT + 1],
    [2, LIMIT + 2],
  ]);
});

/** A new process needs as much memory as `startBytes`. */
function openGuard(startBytes: number): () => Promise<void> {
  return memoryGuard<Slot>({
    limit: () => limit,
    replaceable: () => serving,
    replace: async (slot) => {
      replaced.push(slot.pid);
      if (fail !== null) return { ok: false, reason: fail };
      const successor = { pid: next++ };
      bytes.set(successor.pid, startBytes);
      serving = [...serving.filter((other) => other !== slot), successor];
      return { ok: true, successor };
    },
    log: ((event: string) => void events.push(event)) as never,
    onReplaced: () => counted++,
    measure: (pid) => bytes.get(pid)!,
    nowMs: () => nowMs,
  });
}

test('a process over the limit is replaced, the largest first, one a look', async () => {
  const check = openGuard(LIMIT);
  await check();
  expect(replaced).toEqual([2]);
  await check();
  await check();
  expect(replaced).toEqual([2, 1]);
  expect(events).toEqual(['memory_replaced', 'memory_replaced']);
  expect(counted).toBe(2);
});

test('at the limit, without a limit, and while processes start or leave, nothing is replaced', async () => {
  const check = openGuard(LIMIT);
  bytes = new Map([
    [1, LIMIT],
    [2, 0],
  ]);
  await check();
  bytes.set(1, LIMIT + 1);
  limit = undefined;
  await check();
  limit = LIMIT;
  const all = serving;
  serving = [];
  await check();
  expect(replaced).toEqual([]);
  serving = all;
  await check();
  expect(replaced).toEqual([1]);
});

test('a limit below what a new process needs replaces each slot once a minute', async () => {
  const check = openGuard(LIMIT + 1);
  for (let i = 0; i < 5; i++) await check();
  expect(replaced).toEqual([2, 1]);
  nowMs = MINUTE_MS - 1;
  await check();
  expect(replaced).toEqual([2, 1]);
  nowMs = MINUTE_MS;
  for (let i = 0; i < 5; i++) await check();
  expect(replaced).toEqual([2, 1, 100, 101]);
});

test('a replacement that fails is logged, not counted, and tried again after a minute', async () => {
  const check = openGuard(LIMIT);
  bytes.set(1, 0);
  fail = 'the new process 7 ended with exit code 7';
  await check();
  await check();
  expect(replaced).toEqual([2]);
  expect(events).toEqual(['memory_replace_failed']);
  expect(counted).toBe(0);
  [nowMs, fail] = [MINUTE_MS, null];
  await check();
  expect(replaced).toEqual([2, 2]);
  expect(events).toEqual(['memory_replace_failed', 'memory_replaced']);
});
