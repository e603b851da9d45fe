import { expect, test } from 'vitest';
import type { Policy } from '../../../server/base/ratelimit/limiter.ts';
import { MemoryLimiter } from '../../../server/base/ratelimit/memory.ts';

const ingest: Policy = { name: 'ingest', max: 5, windowSeconds: 60 };

function limiter({ keysMax = 1000, startMs = 0 } = {}) {
  const clock = { nowMs: startMs };
  return { clock, limiter: new MemoryLimiter(keysMax, () => clock.nowMs) };
}

function block(target: MemoryLimiter, key: string, policy = ingest) {
  while (target.take(key, policy).allowed);
}

test('the memory limiter allows the quota, refuses the next, and returns when one more is allowed', () => {
  const { clock, limiter: memory } = limiter();
  const answers = Array.from({ length: 6 }, () => memory.take('a', ingest));
  expect(answers.map((answer) => answer.allowed)).toEqual([true, true, true, true, true, false]);
  expect(answers.map((answer) => answer.remaining)).toEqual([4, 3, 2, 1, 0, 0]);
  expect(answers[5]).toEqual({ allowed: false, remaining: 0, resetSeconds: 72 });
  clock.nowMs = 71_999;
  expect(memory.take('a', ingest)).toEqual({ allowed: false, remaining: 0, resetSeconds: 1 });
  clock.nowMs = 72_000;
  expect(memory.take('a', ingest).allowed).toBe(true);
});

test('refused requests are not counted: a client that keeps trying is allowed at the same time', () => {
  const { clock, limiter: memory } = limiter();
  block(memory, 'a');
  for (clock.nowMs = 1; clock.nowMs < 72_000; clock.nowMs += 10) expect(memory.take('a', ingest).allowed).toBe(false);
  clock.nowMs = 72_000;
  expect(memory.take('a', ingest).allowed).toBe(true);
});

test('keys are counted separately, and each call can have its own policy', () => {
  const { limiter: memory } = limiter();
  block(memory, 'ingest:a');
  expect(memory.take('ingest:b', ingest).allowed).toBe(true);
  expect(memory.take('agent:a', { name: 'agent-auth', max: 20, windowSeconds: 10 }).remaining).toBe(19);
  expect(memory.take('ingest:a', { ...ingest, max: 6 }).allowed).toBe(true);
});

test('the memory limiter stores at most keysMax keys', () => {
  const { limiter: memory } = limiter({ keysMax: 10 });
  for (let address = 0; address < 10; address += 1) memory.take(`a${address}`, ingest);
  expect(memory.size).toBe(10);
  for (let address = 0; address < 100; address += 1) memory.take(`b${address}`, ingest);
  expect(memory.size).toBe(10);
});

test('a flood from new addresses does not unblock a blocked client', () => {
  const { limiter: memory } = limiter({ keysMax: 1000 });
  const blocked = ['first', 'second', 'third'];
  for (const key of blocked) block(memory, key);
  for (let address = 0; address < 50_000; address += 1) memory.take(`flood${address}`, ingest);
  expect(blocked.map((key) => memory.take(key, ingest).allowed)).toEqual([false, false, false]);
  expect(memory.size).toBe(1000);
});

test('expired counters are evicted first, even of clients that were blocked', () => {
  const { clock, limiter: memory } = limiter({ keysMax: 8 });
  for (let address = 0; address < 7; address += 1) block(memory, `old${address}`);
  clock.nowMs = 120_000;
  memory.take('fresh', ingest);
  for (let address = 0; address < 7; address += 1) memory.take(`new${address}`, ingest);
  expect(memory.take('fresh', ingest).remaining).toBe(3);
  expect(memory.size).toBe(8);
});
