import { expect, test } from 'vitest';
import { ClaimMarks } from '../../../server/deliver/claims/marks.ts';
import { uuidAt } from '../../../server/store/ids.ts';
import type { Claimed } from '../../../server/store/queries/claims/order.ts';
import { takeClock } from '../../helpers/clock.ts';

const AT_MS = Date.UTC(2026, 0, 31, 12, 0, 0);
const FROM_FIRST = '-infinity';
const tenSecondsBefore = '2026-01-31T11:59:50.000Z';
const FULL_SCAN_EVERY_MS = 15_000;

const found = (oldestMs: number | null, received: readonly string[] = [], lastWebhookId: string | null = null) => ({
  claimed: received.map((time) => ({ eventId: uuidAt(Date.parse(time)) }) as Claimed),
  oldestMs,
  lastWebhookId,
});

test('the first claim of an agent starts at its first delivery and webhook', () => {
  const marks = new ClaimMarks();
  expect(marks.start('a', 0)).toMatchObject({ claimableFrom: FROM_FIRST, afterWebhookId: null });
  expect(marks.oldestFrom('a')).toBe(FROM_FIRST);
});

test('the next claim starts at the oldest delivery, with a margin, and everywhere once in 15 seconds', () => {
  const clock = takeClock();
  const marks = new ClaimMarks();
  marks.end('a', 0, found(AT_MS + 3_600_000));
  clock.forward(FULL_SCAN_EVERY_MS - 1);
  marks.end('a', 0, found(AT_MS));
  expect(marks.start('a', 0).claimableFrom).toBe(tenSecondsBefore);
  clock.forward(1);
  expect(marks.start('a', 0).claimableFrom).toBe(FROM_FIRST);
  expect(marks.start('a', 0).claimableFrom).toBe(tenSecondsBefore);
  expect(marks.oldestFrom('a')).toBe(tenSecondsBefore);
  expect(marks.oldestFrom('b')).toBe(FROM_FIRST);
  clock.forward(FULL_SCAN_EVERY_MS);
  expect(marks.start('a', 0).claimableFrom).toBe(FROM_FIRST);
});

test('a claim of some webhooks moves the turn, not the watermark', () => {
  const marks = new ClaimMarks();
  marks.end('a', 0, found(null, ['2026-01-31T00:00:00.000Z'], 'webhook'));
  expect(marks.start('a', 0)).toMatchObject({ claimableFrom: FROM_FIRST, afterWebhookId: 'webhook' });
});

test('a claim reads the events of today, then of the days of the claim before', () => {
  const marks = new ClaimMarks();
  const today = marks.start('b', 0).days;
  expect(Date.parse(today.to) - Date.parse(today.from)).toBe(86_400_000);
  marks.end('a', 0, found(AT_MS));
  expect(marks.start('a', 0).days).toEqual(today);
  marks.end('a', 0, found(AT_MS, ['2026-01-30T00:00:00.000Z', '2026-01-28T23:59:59.999Z'], 'webhook'));
  expect(marks.start('a', 0).days).toEqual({ from: '2026-01-28T00:00:00.000Z', to: '2026-01-31T00:00:00.000Z' });
});

test('each cell has its own marks, and the next claim begins with the cell after the last one', () => {
  const marks = new ClaimMarks();
  const cells = [{ number: 0 }, { number: 1 }, { number: 2 }];
  expect(marks.inTurn('a', cells)).toEqual(cells);
  marks.end('a', 0, found(AT_MS + 1));
  marks.end('a', 1, found(AT_MS, ['2026-01-31T00:00:00.000Z'], 'webhook'));
  expect(marks.inTurn('a', cells).map(({ number }) => number)).toEqual([2, 0, 1]);
  expect(marks.start('a', 0).afterWebhookId).toBeNull();
  expect(marks.oldestFrom('a')).toBe(tenSecondsBefore);
});

test('10,000 agents are remembered; one more clears them all', () => {
  const marks = new ClaimMarks();
  for (let i = 0; i < 10_000; i++) marks.end(String(i), 0, found(AT_MS));
  expect(marks.oldestFrom('0')).toBe(tenSecondsBefore);
  marks.end('one more', 0, found(AT_MS));
  expect(marks.oldestFrom('0')).toBe(FROM_FIRST);
  expect(marks.oldestFrom('one more')).toBe(tenSecondsBefore);
});
