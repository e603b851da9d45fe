/** What is read of all webhooks. */

import { afterAll, beforeAll, expect, test } from 'vitest';
import { HOUR_MS } from '../../server/base/time/durations.ts';
import { nullUntilFirstRead, sizedByWebhooks } from '../../server/store/many-webhooks.ts';
import { readSilentWebhooks, readUsualPauses } from '../../server/store/queries/alerts/silent-webhooks.ts';
import { addHistory } from '../../server/store/queries/webhooks/history.ts';
import { readLargestWebhooks } from '../../server/store/queries/webhooks/usage.ts';
import { readWebhookIds } from '../../server/store/queries/webhooks/webhooks.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';

const nowMs = Date.now();
const idAt = (place: number) => `${place.toString(16).padStart(4, '0')}0000-0000-4000-8000-000000000000`;
const last = idAt(0xffff);
let fresh: FreshDatabase;
beforeAll(async () => {
  fresh = await freshDatabase();
  await fresh.database.query({
    text: `insert into webhooks (id, name, created_at, last_event_at)
           select (lpad(to_hex(i * 65), 4, '0') || '0000-0000-4000-8000-000000000000')::uuid, 'webhook ' || i, now() - interval '8 days',
             now() - interval '5 hours'
           from generate_series(0, 1000) i
           union all select $1::uuid, 'last', now() - interval '8 days', now() - interval '5 hours'`,
    values: [last],
  });
});
afterAll(() => fresh.drop());

test('the ids for the read-ahead begin with the newest events', async () => {
  const { database, drop } = await freshDatabase();
  const ids = [idAt(1), idAt(2), idAt(3), idAt(4)];
  await database.query({
    text: `insert into webhooks (id, name, created_at, last_event_at, deleted_at)
           values ($1, 'a', now() - interval '3 days', null, null), ($2, 'b', now() - interval '2 days', null, null),
             ($3, 'c', now() - interval '9 days', now() - interval '1 hour', null), ($4, 'd', now(), now(), now())`,
    values: ids,
  });
  expect(await readWebhookIds(database, 10)).toBe([ids[2], ids[1], ids[0]].join(','));
  expect(await readWebhookIds(database, 2)).toBe([ids[2], ids[1]].join(','));
  await drop();
});

test('what is read of more than 1,000 webhooks is kept', async () => {
  expect(await sizedByWebhooks(fresh.database, Promise.resolve('read'))).toEqual({ value: 'read', isLarge: true });
  const few = await freshDatabase();
  expect(await sizedByWebhooks(few.database, Promise.resolve('read'))).toEqual({ value: 'read', isLarge: false });
  await few.drop();
});

test('the first read of many webhooks is not waited for, the next ones are', async () => {
  let end = (_value: string) => {};
  const reading = new Promise<string>((resolve) => {
    end = resolve;
  });
  const read = nullUntilFirstRead(fresh.database, () => reading);
  expect([await read(nowMs), await read(nowMs)]).toEqual([null, null]);
  end('read');
  await reading;
  expect(await read(nowMs)).toBe('read');
});

test('after a first read that failed, a call waits and gets the next error', async () => {
  const read = nullUntilFirstRead(fresh.database, async () => {
    throw new Error('refused');
  });
  expect(await read(nowMs)).toBeNull();
  await expect(read(nowMs)).rejects.toThrow('refused');
});

test('the first read of few webhooks is waited for', async () => {
  const few = await freshDatabase();
  expect(await nullUntilFirstRead(few.database, async () => 'read')(nowMs)).toBe('read');
  await few.drop();
});

test('the largest webhooks come first, then others', async () => {
  const counted = [last, idAt(0), idAt(65 * 500)];
  await addHistory(
    fresh.database,
    counted.map((webhookId, i) => ({ webhookId, minuteMs: nowMs - 2 * HOUR_MS, accepted: 1, bytes: 300 - i })),
  );
  const ids = await readLargestWebhooks(fresh.database, { retentionDays: 30, nowMs });
  expect(ids).toHaveLength(200);
  expect(ids.slice(0, 4)).toEqual([...counted, idAt(65)]);
});

test('a webhook that had an event each hour is silent after two hours without one', async () => {
  const often = [idAt(65 * 10), idAt(65 * 900)];
  const rows = often.flatMap((webhookId) =>
    Array.from({ length: 30 }, (_, i) => ({ webhookId, minuteMs: nowMs - (5 + i) * HOUR_MS, accepted: 1, bytes: 1 })),
  );
  await addHistory(fresh.database, rows);
  const pauses = await readUsualPauses(fresh.database, nowMs, HOUR_MS / 2);
  expect(pauses.map(({ webhook_id }) => webhook_id).sort()).toEqual(often);
  expect(pauses.every(({ longest_seconds }) => longest_seconds === 3_600)).toBe(true);
  const silent = await readSilentWebhooks(fresh.database, nowMs, pauses);
  expect(silent.map(({ webhook_id }) => webhook_id)).toEqual(often);
});
