import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import type { Database } from '../../../server/store/connect/pool.ts';
import { storeDeduped } from '../../../server/store/queries/events/store-deduped.ts';
import { readWebhookActivity } from '../../../server/store/queries/webhooks/usage.ts';
import { dropOldPartitions } from '../../../server/store/retention/drop-partitions.ts';
import { removeExpiredEvents } from '../../../server/store/retention/retention.ts';
import { storeEvents } from '../../helpers/agents.ts';
import { daysAgo, nowMs, retained } from '../../helpers/retention.ts';

const RETENTION_DAYS = 10;
const { fresh, addWebhook } = retained();

const remove = (atMs = nowMs, stopping?: () => boolean) =>
  removeExpiredEvents(fresh.database, RETENTION_DAYS, atMs, { stopping });
async function count(table: 'events' | 'deliveries', webhookId: string): Promise<number> {
  const rows = await fresh.sql(`select from ${table} where webhook_id = $1`, webhookId);
  return rows.length;
}

test('exactly the events older than the retention_days of their webhook are deleted, at both limits', async () => {
  const short = await addWebhook(3, false);
  const usual = await addWebhook(null, false);
  for (const webhook of [short, usual]) {
    await storeEvents(fresh.database, webhook, 4, daysAgo(3) - 1);
    await storeEvents(fresh.database, webhook, 2, daysAgo(3));
    await storeEvents(fresh.database, webhook, 1, nowMs);
  }
  expect(await remove()).toEqual({ events: 4, deliveries: 0, unhandled: 0 });
  expect(await count('events', short)).toBe(3);
  expect(await count('events', usual)).toBe(7);
  expect(await remove()).toEqual({ events: 0, deliveries: 0, unhandled: 0 });
});

test('their deliveries are deleted with them, and unsettled ones are counted', async () => {
  const webhook = await addWebhook(2);
  await storeEvents(fresh.database, webhook, 5, daysAgo(4));
  await storeEvents(fresh.database, webhook, 1, daysAgo(1));
  await fresh.sql(
    `update deliveries set state = 'done', finished_at = now()
           where id in (select id from deliveries where received_at < $1::timestamptz limit 2)`,
    new Date(daysAgo(2)).toISOString(),
  );
  expect(await remove()).toEqual({ events: 5, deliveries: 5, unhandled: 3 });
  expect(await count('deliveries', webhook)).toBe(1);
});

test('more events than one statement reads are deleted, of one millisecond and of several days', async () => {
  const webhook = await addWebhook(1, false);
  const other = await addWebhook(null, false);
  await storeEvents(fresh.database, webhook, 6_000, daysAgo(3));
  await storeEvents(fresh.database, other, 6_000, daysAgo(3));
  await storeEvents(fresh.database, webhook, 5_000, daysAgo(2));
  expect((await remove()).events).toBe(11_000);
  expect(await count('events', other)).toBe(6_000);
});

test('a stopped round continues where it was, and a completed one is not repeated', async () => {
  const webhook = await addWebhook(2, false);
  for (const days of [6, 5, 4]) await storeEvents(fresh.database, webhook, 10, daysAgo(days));
  const removedBefore = async () => (await readWebhookActivity(fresh.database, [webhook]))[0]!.events_removed_before;
  let statements = 0;
  const first = await remove(nowMs, () => ++statements > 10);
  expect(first.events).toBeLessThan(30);
  const reached = await removedBefore();
  expect(first.events + (await remove()).events).toBe(30);
  expect(Date.parse((await removedBefore())!)).toBe(daysAgo(2));
  expect(reached! < (await removedBefore())!).toBe(true);

  // Stored behind the deleted part: only a scan from the start would find it.
  await storeEvents(fresh.database, webhook, 1, daysAgo(5));
  expect((await remove()).events).toBe(0);
});

test('deletions of a stopped round are counted', async () => {
  const webhook = await addWebhook(2);
  await storeEvents(fresh.database, webhook, 7_000, daysAgo(4));
  // Earlier statements delete nothing. Stop within the day that has events.
  const deliveries = () => count('deliveries', webhook);
  let total = 0;
  for (let statements = 1; (await deliveries()) > 0; statements += 1) {
    let left = statements;
    total += (await remove(nowMs, () => left-- === 0)).unhandled;
  }
  expect(total).toBe(7_000);
});

test('a webhook with lowered retention_days loses the events that are now too old', async () => {
  const webhook = await addWebhook(6, false);
  await storeEvents(fresh.database, webhook, 3, daysAgo(4));
  expect((await remove()).events).toBe(0);
  await fresh.sql('update webhooks set retention_days = 3 where id = $1', webhook);
  expect((await remove()).events).toBe(3);
});

test('the events of a deleted webhook expire as well', async () => {
  const webhook = await addWebhook(2, false);
  await storeEvents(fresh.database, webhook, 3, daysAgo(4));
  await fresh.sql('update webhooks set deleted_at = now() where id = $1', webhook);
  expect((await remove()).events).toBe(3);
});

test('unsettled deliveries of a dropped day are counted', async () => {
  const webhook = await addWebhook(null);
  await storeEvents(fresh.database, webhook, 4, daysAgo(5));
  await fresh.sql(
    `update deliveries set state = 'dead', finished_at = now() where id in (select id from deliveries limit 1)`,
  );
  expect((await dropOldPartitions(fresh.database, 3, nowMs)).unhandled).toBe(3);
});

test('a day whose unsettled deliveries are being ended is kept when Weir stops', async () => {
  const webhook = await addWebhook(null);
  await storeEvents(fresh.database, webhook, 4, daysAgo(5));
  let stopping = false;
  const query: Database['query'] = async (statement) => {
    const rows = await fresh.database.query(statement);
    if (statement.text.includes("state = 'dead'")) stopping = rows.length > 0;
    return rows;
  };
  const database = { ...fresh.database, query };
  expect((await dropOldPartitions(database, 3, nowMs, { stopping: () => stopping })).unhandled).toBe(4);
  expect(await count('deliveries', webhook)).toBe(4);
  expect((await dropOldPartitions(fresh.database, 3, nowMs)).unhandled).toBe(0);
  expect(await count('deliveries', webhook)).toBe(0);
});

test('a dedupe key is deleted with its event', async () => {
  const webhookId = await addWebhook(2, false);
  const id = Buffer.from(randomUUID().replaceAll('-', ''), 'hex');
  const row = {
    id,
    webhookId: Buffer.from(webhookId.replaceAll('-', ''), 'hex'),
    receivedAtMs: nowMs,
    sourceIp: Buffer.from([2, 32, 0, 4, 127, 0, 0, 1]),
    headers: Buffer.alloc(0),
    contentType: null,
    eventType: null,
    body: new Uint8Array(new SharedArrayBuffer(1)),
    orderKeys: null,
    key: Buffer.alloc(32, 1),
  };
  await storeDeduped(fresh.database, [row as never], RETENTION_DAYS);
  const [key] = await fresh.sql<{ days: number }>(
    'select round(extract(epoch from expires_at - now()) / 86400)::int as days from dedupe_keys',
  );
  expect(key).toEqual({ days: 2 });
});
