/** KEEP_UNDELIVERED_DAYS: events that no agent has settled are kept longer than others, and are reported before they are removed. */

import { expect, test } from 'vitest';
import { DAY_MS } from '../../server/base/time/durations.ts';
import { countExpiring } from '../../server/store/queries/alerts/expiring.ts';
import { dropOldPartitions } from '../../server/store/retention/drop-partitions.ts';
import { partitionName } from '../../server/store/retention/partitions.ts';
import { removeExpiredEvents } from '../../server/store/retention/retention.ts';
import { storeEvents } from '../helpers/agents.ts';
import { daysAgo, nowMs, retained } from '../helpers/retention.ts';

const RETENTION_DAYS = 4;
const KEEP_DAYS = 2;
const { fresh, agentId, addWebhook } = retained();

const settle = (ids: readonly string[]) =>
  fresh.sql(
    `update deliveries set state = 'done', finished_at = now() where event_id = any ($1::uuid[])`,
    `{${ids.join(',')}}`,
  );
const drop = (atMs = nowMs) =>
  dropOldPartitions(fresh.database, RETENTION_DAYS, atMs, { keepUndeliveredDays: KEEP_DAYS });
const remove = (atMs = nowMs, keepDays = KEEP_DAYS) =>
  removeExpiredEvents(fresh.database, RETENTION_DAYS, atMs, { keepUndeliveredDays: keepDays });
const left = async () => (await fresh.sql<{ id: string }>('select id from events order by 1')).map(({ id }) => id);

test('a day with undelivered events is kept whole, other days are dropped', async () => {
  const webhook = await addWebhook(null);
  const delivered = await storeEvents(fresh.database, webhook, 2, daysAgo(5));
  const kept = await storeEvents(fresh.database, webhook, 2, daysAgo(6));
  await settle([...delivered, kept[0]!]);
  const dropped = await drop();
  expect(dropped).toMatchObject({ unhandled: 0, keptDays: [partitionName('events', daysAgo(6)).slice(-8)] });
  expect(dropped.partitions).toEqual(
    expect.arrayContaining([partitionName('events', daysAgo(5)), partitionName('deliveries', daysAgo(5))]),
  );
  expect(await left()).toEqual(kept.sort());

  // The deliveries are settled now, so the day is dropped.
  await settle(kept);
  expect((await drop()).partitions).toContain(partitionName('events', daysAgo(6)));
  expect(await left()).toEqual([]);
});

test('after KEEP_UNDELIVERED_DAYS the day is dropped with them, and they are counted', async () => {
  const webhook = await addWebhook(null);
  await storeEvents(fresh.database, webhook, 3, daysAgo(5));
  expect(await drop(nowMs + DAY_MS)).toMatchObject({ unhandled: 0 });
  const dropped = await drop(nowMs + KEEP_DAYS * DAY_MS);
  expect(dropped).toMatchObject({ unhandled: 3, keptDays: [] });
  expect(await left()).toEqual([]);
});

test('undelivered deliveries end as dead in the partition that is archived', async () => {
  const webhook = await addWebhook(null);
  const [done, first, second] = await storeEvents(fresh.database, webhook, 3, daysAgo(5));
  await settle([done!]);
  const archived: unknown[] = [];
  await dropOldPartitions(fresh.database, RETENTION_DAYS, nowMs, {
    archive: async (partition, query) => {
      if (!partition.startsWith('deliveries_')) return;
      archived.push(...(await query({ text: `select event_id, state, reason from ${partition}` })));
    },
  });
  const reason = 'retention removed its event';
  expect(archived).toHaveLength(3);
  expect(archived).toEqual(
    expect.arrayContaining([
      { event_id: done, state: 'done', reason: null },
      { event_id: first, state: 'dead', reason },
      { event_id: second, state: 'dead', reason },
    ]),
  );
});

test('a delivery replayed while its day is dropped goes with the event', async () => {
  const webhook = await addWebhook(null);
  await storeEvents(fresh.database, webhook, 1, daysAgo(5));
  let replays = 1;
  await dropOldPartitions(fresh.database, RETENTION_DAYS, nowMs, {
    archive: async (partition, query) => {
      if (partition !== partitionName('deliveries', daysAgo(5)) || replays-- === 0) return;
      await query({
        text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
               select delivery_id(id), webhook_id, $1, id, received_at, bytes from events`,
        values: [agentId],
      });
    },
  });
  expect(replays).toBe(0);
  expect(await fresh.sql('select from deliveries')).toEqual([]);
});

test('with retention_days of a webhook, only its undelivered events are kept', async () => {
  const webhook = await addWebhook(2);
  const delivered = await storeEvents(fresh.database, webhook, 3, daysAgo(3));
  const undelivered = await storeEvents(fresh.database, webhook, 2, daysAgo(3));
  await settle(delivered);
  expect(await remove()).toEqual({ events: 3, deliveries: 3, unhandled: 0 });
  expect(await left()).toEqual(undelivered.sort());
  expect(await remove()).toEqual({ events: 0, deliveries: 0, unhandled: 0 });

  // One event is settled late. Both are removed after KEEP_UNDELIVERED_DAYS.
  await settle([undelivered[0]!]);
  expect(await remove(nowMs + KEEP_DAYS * DAY_MS)).toEqual({ events: 2, deliveries: 2, unhandled: 1 });
});

test('a webhook keeps an event that one of two agents has not settled', async () => {
  const webhook = await addWebhook(2);
  const [id] = await storeEvents(fresh.database, webhook, 1, daysAgo(3));
  await settle([id!]);
  await fresh.sql(`insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
           select gen_random_uuid(), webhook_id, gen_random_uuid(), event_id, received_at, bytes from deliveries`);
  expect(await remove()).toEqual({ events: 0, deliveries: 1, unhandled: 0 });
  expect(await left()).toEqual([id]);
});

test('with KEEP_UNDELIVERED_DAYS set back to 0, what was kept is removed', async () => {
  const webhook = await addWebhook(2);
  await storeEvents(fresh.database, webhook, 2, daysAgo(3));
  expect((await remove()).events).toBe(0);
  expect(await remove(nowMs, 0)).toEqual({ events: 2, deliveries: 2, unhandled: 2 });
});

test('undelivered events are announced a day before they go', async () => {
  const [webhook, brief] = [await addWebhook(null), await addWebhook(1)];
  const count = (keepUndeliveredDays: number) =>
    countExpiring(fresh.database, { retentionDays: RETENTION_DAYS, keepUndeliveredDays }, nowMs);
  const startOfDay = Math.floor(nowMs / DAY_MS) * DAY_MS;
  // These events are dropped with their day, at the end of the fourth day after it.
  const leaving = await storeEvents(fresh.database, webhook, 3, startOfDay - RETENTION_DAYS * DAY_MS + 1);
  await storeEvents(fresh.database, webhook, 5, startOfDay - (RETENTION_DAYS - 1) * DAY_MS);
  expect(await count(0)).toBe(3);
  expect(await count(1)).toBe(0);
  await settle(leaving);
  expect(await count(0)).toBe(0);
  // A quarter of a day before the end of one day.
  await storeEvents(fresh.database, brief, 2, nowMs - DAY_MS * 0.8);
  await storeEvents(fresh.database, brief, 4, nowMs - DAY_MS * 0.7);
  expect(await count(0)).toBe(2);
});

test('events behind the mark, which a late spool moved back, are removed', async () => {
  const webhook = await addWebhook(2);
  await remove(nowMs, 0);
  await storeEvents(fresh.database, webhook, 2, daysAgo(3));
  expect((await remove(nowMs, 0)).events).toBe(0);
  await fresh.sql(
    'update webhooks set events_removed_before = $2 where id = $1',
    webhook,
    new Date(daysAgo(3)).toISOString(),
  );
  expect((await remove(nowMs, 0)).events).toBe(2);
});
