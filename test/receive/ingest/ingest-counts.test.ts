import { afterEach, beforeEach, describe, expect, test, vi } from 'vitest';
import { MINUTE_MS } from '../../../server/base/time/durations.ts';
import { COUNTED_ROWS_MAX, IngestCounts } from '../../../server/receive/ingest/ingest-counts.ts';
import type { HistoryRow } from '../../../server/store/queries/webhooks/history.ts';
import { SPARSE_FROM, VALUES_MAX } from '../../../server/store/write-behind.ts';

let written: HistoryRow[] = [];
let works = true;
let nowMs = 0;
const open: IngestCounts[] = [];
function start(): IngestCounts {
  written = [];
  works = true;
  nowMs = 5 * MINUTE_MS + 1;
  const counts = new IngestCounts(
    async (rows) => {
      if (!works) throw new Error('no database');
      written.push(...rows);
    },
    { nowMs: () => nowMs },
  );
  open.push(counts);
  return counts;
}
afterEach(async () => {
  for (const counts of open.splice(0)) await counts.close();
});

test('counts are written once, and begin again at zero', async () => {
  const counts = start();
  counts.of('a').touch().accepted += 2;
  counts.of('b');
  await counts.flush();
  counts.of('a').touch().limited++;
  await counts.flush();
  await counts.flush();
  expect(written).toMatchObject([
    { webhookId: 'a', minuteMs: 5 * MINUTE_MS, accepted: 2, limited: 0 },
    { webhookId: 'a', minuteMs: 5 * MINUTE_MS, accepted: 0, limited: 1 },
  ]);
});

test('counts that could not be written are kept with their minute', async () => {
  const counts = start();
  const of = counts.of('a');
  works = false;
  for (const [accepted, ms] of [
    [1, 5],
    [2, 5],
    [4, 6],
  ] as const) {
    of.touch().accepted += accepted;
    nowMs = ms * MINUTE_MS;
    await counts.flush();
  }
  works = true;
  await counts.flush();
  expect(written.map(({ minuteMs, accepted }) => [minuteMs / MINUTE_MS, accepted])).toEqual([
    [5, 3],
    [6, 4],
  ]);
});

test('uses belong to the secret that verified, also when it was rotated before the write', async () => {
  const counts = start();
  const of = counts.of('a', 'first');
  works = false;
  of.touch().uses += 2;
  of.touch().lastEventMs = 7;
  await counts.flush();
  of.touch().uses += 3;
  expect(counts.of('a', 'second')).toBe(of);
  of.touch().uses += 4;
  of.touch().lastEventMs = 6;
  works = true;
  await counts.flush();
  expect(written).toMatchObject([{ secretId: 'second', uses: 4, previousUses: 5, lastEventMs: 7 }]);
  await counts.flush();
  expect(written).toHaveLength(1);
});

test('a long outage holds a limited number of rows and loses no count', async () => {
  const counts = start();
  works = false;
  const webhooks = Array.from({ length: 300 }, (_, i) => counts.of(`webhook ${i}`));
  const minutes = Math.ceil(COUNTED_ROWS_MAX / webhooks.length) + 10;
  for (let minute = 0; minute < minutes; minute++) {
    for (const one of webhooks) one.touch().rejected++;
    nowMs += MINUTE_MS;
    await counts.flush();
  }
  works = true;
  await counts.flush();
  expect(written).toHaveLength(COUNTED_ROWS_MAX);
  await counts.flush();
  expect(written.reduce((sum, { rejected }) => sum + rejected!, 0)).toBe(minutes * webhooks.length);
});

describe('of many webhooks', () => {
  beforeEach(() => void vi.useFakeTimers());
  afterEach(() => void vi.useRealTimers());

  test('the counts of a minute are written after its end', async () => {
    const counts = start();
    const webhooks = Array.from({ length: VALUES_MAX + 1 }, (_, i) => counts.of(`webhook ${i}`));
    const add = () => {
      for (const one of webhooks) one.touch().accepted++;
    };
    add();
    await counts.flush();
    written = [];
    // Seconds of the minute.
    for (const second of [10, 20, 50, 61]) {
      add();
      nowMs = 5 * MINUTE_MS + second * 1_000;
      await vi.advanceTimersByTimeAsync(10_000);
    }
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    expect(written.map(({ minuteMs, accepted }) => [minuteMs / MINUTE_MS, accepted])).toEqual(
      webhooks.map(() => [5, 4]),
    );
  });

  test('the first counts are written after the end of their minute as well', async () => {
    const counts = start();
    for (let i = 0; i <= VALUES_MAX; i++) counts.of(`webhook ${i}`).touch().accepted++;
    await vi.advanceTimersByTimeAsync(20_000);
    expect(written).toEqual([]);
    nowMs += MINUTE_MS;
    await vi.advanceTimersByTimeAsync(10_000);
    expect(written).toHaveLength(VALUES_MAX + 1);
  });

  test('tens of thousands are collected in several turns of the event loop, and a write in between takes all', async () => {
    const counts = start();
    const webhooks = Array.from({ length: SPARSE_FROM }, (_, i) => counts.of(`webhook ${i}`));
    for (const one of webhooks) one.touch().accepted++;
    await counts.flush();
    written = [];
    for (const one of webhooks) one.touch().rejected++;
    nowMs += MINUTE_MS;
    vi.advanceTimersToNextTimer();
    const left = webhooks.filter(({ counts }) => counts.rejected > 0).length;
    expect(left).toBeGreaterThan(SPARSE_FROM / 2);
    vi.advanceTimersToNextTimer();
    expect(webhooks.filter(({ counts }) => counts.rejected > 0).length).toBeLessThan(left);
    await counts.flush();
    expect(written.map(({ webhookId }) => webhookId).sort()).toEqual(webhooks.map((_, i) => `webhook ${i}`).sort());
    expect(new Set(written.map(({ rejected }) => rejected))).toEqual(new Set([1]));
  });

  test('of tens of thousands, accepted requests are written every five minutes without minutes, refused ones each minute', async () => {
    const counts = start();
    const webhooks = Array.from({ length: SPARSE_FROM }, (_, i) => counts.of(`webhook ${i}`));
    const pass = async (minutes: number) => {
      for (const one of webhooks) one.touch().accepted++;
      nowMs += minutes * MINUTE_MS;
      await vi.advanceTimersByTimeAsync(minutes * MINUTE_MS);
    };
    for (const one of webhooks) one.touch().accepted++;
    await counts.flush();
    written = [];
    await pass(1);
    expect(written).toEqual([]);
    webhooks[7]!.touch().rejected++;
    await pass(1);
    expect(written.map((row) => [row.webhookId, row.minuteMs / MINUTE_MS, row.withoutMinute, row.accepted])).toEqual([
      ['webhook 7', 6, false, 2],
    ]);
    written = [];
    for (let minute = 7; minute < 10; minute++) {
      expect(written).toEqual([]);
      await pass(1);
    }
    await vi.advanceTimersByTimeAsync(MINUTE_MS);
    expect(written).toHaveLength(SPARSE_FROM);
    expect(written[0]).toMatchObject({ minuteMs: 9 * MINUTE_MS, withoutMinute: true, accepted: 5 });
    const seventh = written.find(({ webhookId }) => webhookId === 'webhook 7');
    expect(seventh).toMatchObject({ minuteMs: 9 * MINUTE_MS, withoutMinute: true, accepted: 3 });
  });
});
