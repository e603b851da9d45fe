import { afterEach, beforeEach, expect, test, vi } from 'vitest';
import { DEATHS_KEPT } from '../../../server/model/process-deaths.ts';
import { DeathLog } from '../../../server/operate/primary/deaths.ts';

beforeEach(() => {
  vi.useFakeTimers({ toFake: ['Date', 'performance'], now: Date.UTC(2026, 0, 31, 12) });
});
afterEach(() => {
  vi.useRealTimers();
});

const dead = (pid: number) => ({ pid, reason: 'SIGKILL', livedMs: 1_000.4 });

test('a death has its time, its reason, and how long not all processes served', () => {
  const log = new DeathLog();
  expect(log.known).toEqual({ total: 0, newest: [] });
  log.add(dead(77));
  vi.advanceTimersByTime(300);
  log.add({ ...dead(78), reason: 1 });
  const [second, first] = log.known.newest;
  expect([second, first]).toEqual([
    { at: '2026-01-31T12:00:00.300Z', pid: 78, reason: 'exit code 1', ran_ms: 1_000, recovered_ms: null },
    { at: '2026-01-31T12:00:00.000Z', pid: 77, reason: 'SIGKILL', ran_ms: 1_000, recovered_ms: null },
  ]);
  vi.advanceTimersByTime(200);
  log.recovered();
  vi.advanceTimersByTime(1_000);
  log.recovered();
  expect([second!.recovered_ms, first!.recovered_ms]).toEqual([200, 500]);
});

test(`the last ${DEATHS_KEPT} deaths are kept, newest first, and all are counted`, () => {
  const log = new DeathLog();
  for (let pid = 1; pid <= DEATHS_KEPT; pid++) log.add(dead(pid));
  expect([log.known.newest.length, log.known.newest.at(-1)!.pid]).toEqual([DEATHS_KEPT, 1]);
  log.add(dead(DEATHS_KEPT + 1));
  const { total, newest } = log.known;
  expect([total, newest.length, newest[0]!.pid, newest.at(-1)!.pid]).toEqual([
    DEATHS_KEPT + 1,
    DEATHS_KEPT,
    DEATHS_KEPT + 1,
    2,
  ]);
});
