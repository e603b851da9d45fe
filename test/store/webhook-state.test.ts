/** The state of webhooks: what is counted with the history, and what is read of all webhooks by it. */

import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { DAY_MS, HOUR_MS, MINUTE_MS } from '../../server/base/time/durations.ts';
import { readRefusedRequests } from '../../server/store/queries/alerts/condition-signs.ts';
import { readOverdueWebhooks, readSilentWebhooks } from '../../server/store/queries/alerts/silent-webhooks.ts';
import { addHistory, readWebhookHistory } from '../../server/store/queries/webhooks/history.ts';
import { readSecretUses, replaceSecret } from '../../server/store/queries/webhooks/secrets.ts';
import {
  readWebhookActivity,
  readWebhookUsage,
  subtractRemovedUsage,
} from '../../server/store/queries/webhooks/usage.ts';
import { deleteWebhook, readWebhookIds } from '../../server/store/queries/webhooks/webhooks.ts';
import { freshDatabase } from '../helpers/postgres.ts';
import { ofTest, shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const nowMs = Math.floor(Date.now() / HOUR_MS) * HOUR_MS;
const fresh = shared(freshDatabase);

const run = (text: string, values: unknown[] = []) => fresh.sql(text, ...values);
const iso = (ms: number) => new Date(ms).toISOString();
async function addWebhook(more = ''): Promise<string> {
  const id = randomUUID();
  await run(`insert into webhooks (id, name, created_at) values ($1, 'shop', now() - interval '60 days')`, [id]);
  if (more !== '') await run(`update webhooks set ${more} where id = $1`, [id]);
  return id;
}
const add = (webhookId: string, agoMs: number, more: object) =>
  addHistory(fresh.database, [{ webhookId, minuteMs: nowMs - agoMs, ...more }]);
const lastEventOf = async (id: string) => (await readWebhookActivity(fresh.database, [id]))[0]!.last_event_at;

test('the last event is the latest of all processes, and of the release before', async () => {
  const id = await addWebhook(`last_event_at = '${iso(nowMs - DAY_MS)}'`);
  expect(await lastEventOf(id)).toBe(iso(nowMs - DAY_MS));
  await add(id, HOUR_MS, { accepted: 1, lastEventMs: nowMs - HOUR_MS });
  await add(id, 2 * HOUR_MS, { accepted: 1, lastEventMs: nowMs - 2 * HOUR_MS });
  expect(await lastEventOf(id)).toBe(iso(nowMs - HOUR_MS));
  await add(id, 0, { rejected: 1 });
  expect(await lastEventOf(id)).toBe(iso(nowMs - HOUR_MS));
  await run('update webhooks set last_event_at = $2 where id = $1', [id, iso(nowMs - MINUTE_MS)]);
  expect(await lastEventOf(id)).toBe(iso(nowMs - MINUTE_MS));
});

test('a webhook that expects events is overdue by the last event of its state', async () => {
  const id = await addWebhook(`expect_every_seconds = 60, last_event_at = '${iso(nowMs - DAY_MS)}'`);
  const overdue = async () => (await readOverdueWebhooks(fresh.database, nowMs)).map(({ webhook_id }) => webhook_id);
  expect(await overdue()).toContain(id);
  await add(id, 0, { accepted: 1, lastEventMs: nowMs - 60_000 });
  expect(await overdue()).not.toContain(id);
});

test('uses belong to the secret that the process knew, and those before a rotation to the previous one', async () => {
  const id = await addWebhook();
  const rotate = (overlapSeconds: number) =>
    fresh.database.transaction((query) => replaceSecret(query, id, Buffer.alloc(8), overlapSeconds));
  const currentId = async () =>
    (await run(`select id from webhook_secrets where webhook_id = $1 and slot = 'current'`, [id]))[0] as { id: string };
  const uses = async () => (await readSecretUses(fresh.database, id)).map((one) => [one.slot, one.uses]);
  await rotate(0);
  const { id: first } = await currentId();
  await run('update webhook_secrets set uses = 7 where id = $1', [first]);
  await add(id, 0, { secretId: first, uses: 2, previousUses: 0 });
  expect(await uses()).toEqual([['current', 9]]);
  await rotate(3_600);
  const { id: second } = await currentId();
  await add(id, 0, { secretId: first, uses: 3, previousUses: 0 });
  await add(id, 0, { secretId: second, uses: 4, previousUses: 5 });
  expect(await uses()).toEqual([
    ['current', 4],
    ['previous', 17],
  ]);
  const [current] = await readSecretUses(fresh.database, id);
  expect(Math.abs(Date.now() - Date.parse(current!.last_used_at!))).toBeLessThan(60_000);
  await rotate(0);
  expect(await readSecretUses(fresh.database, id)).toMatchObject([{ slot: 'current', uses: 0, last_used_at: null }]);
});

test('the largest webhooks come first, then others, and deleted ones not at all', async () => {
  const [large, small, none, deleted] = [
    await addWebhook(),
    await addWebhook(),
    await addWebhook(),
    await addWebhook(),
  ];
  for (const [id, bytes] of [
    [small, 1_000_000],
    [large, 2_000_000],
    [deleted, 9_000_000],
  ] as const)
    await add(id, 2 * HOUR_MS, { accepted: 1, bytes });
  await fresh.database.transaction((query) => deleteWebhook(query, deleted));
  await add(deleted, 0, { accepted: 1, bytes: 9_000_000 });
  const ids = (await readWebhookUsage(fresh.database, null)).map(({ webhook_id }) => webhook_id);
  expect(ids.slice(0, 2)).toEqual([large, small]);
  expect(ids).toContain(none);
  expect(ids).not.toContain(deleted);
});

test('usage is less what retention has removed, once, and keeps what is counted at that time', async () => {
  const id = await addWebhook();
  for (const days of [40, 20, 2]) await add(id, days * DAY_MS, { accepted: 1, bytes: 100 });
  const usage = async () => (await readWebhookUsage(fresh.database, [id]))[0];
  const subtract = () => subtractRemovedUsage(fresh.database, { retentionDays: 30, nowMs });
  expect(await usage()).toMatchObject({ events: 3, bytes: 300, oldest_at: iso(nowMs - 40 * DAY_MS) });
  await subtract();
  expect(await usage()).toMatchObject({ events: 2, bytes: 200, oldest_at: iso(nowMs - 20 * DAY_MS) });
  await subtract();
  expect(await usage()).toMatchObject({ events: 2, bytes: 200 });
  // A transaction that adds while it is subtracted.
  await run('update webhooks set events_removed_before = $2 where id = $1', [id, iso(nowMs - 5 * DAY_MS)]);
  let subtracting = Promise.resolve();
  await fresh.database.transaction(async (query) => {
    await addHistory({ ...fresh.database, query }, [{ webhookId: id, minuteMs: nowMs, accepted: 1, bytes: 7 }]);
    subtracting = subtract();
    const blocked = 'select from pg_locks where not granted and pg_backend_pid() = any (pg_blocking_pids(pid))';
    await until(async () => (await query({ text: blocked })).length > 0);
  });
  await subtracting;
  expect(await usage()).toMatchObject({ events: 2, bytes: 107, oldest_at: iso(nowMs - 2 * DAY_MS) });
});

test('the removed hours of all webhooks are subtracted, in parts, and no other hours are read', async () => {
  await run(
    `with added as (
       insert into webhooks (id, name) select gen_random_uuid(), 'many' from generate_series(1, 2100) returning id
     ), hours as (
       insert into history (webhook_id, step, at, accepted, duplicates, rejected, limited, bytes)
       select id, 3600, at, 5, 0, 0, 0, 0 from added, unnest($1::timestamptz[]) at
     )
     insert into webhook_state (webhook_id, events) select id, 7 from added`,
    [`{${iso(nowMs - 40 * DAY_MS)},${iso(nowMs - 2 * DAY_MS)}}`],
  );
  await subtractRemovedUsage(fresh.database, { retentionDays: 30, nowMs });
  const counts =
    await run(`select s.events::int, count(*)::int from webhook_state s join webhooks w on w.id = s.webhook_id
    where w.name = 'many' group by s.events`);
  expect(counts).toEqual([{ events: 2, count: 2100 }]);
});

test('counts without a minute are in the quarter, the hour and the minute of all webhooks, and refusals are judged with them', async () => {
  const { database } = await ofTest(freshDatabase());
  const [accepting, failing] = [randomUUID(), randomUUID()];
  await database.query({
    text: `insert into webhooks (id, name) values ($1, 'a'), ($2, 'b')`,
    values: [accepting, failing],
  });
  await addHistory(database, [
    { webhookId: accepting, minuteMs: nowMs, withoutMinute: true, accepted: 9 },
    { webhookId: failing, minuteMs: nowMs, rejected: 2 },
  ]);
  await addHistory(database, [{ webhookId: accepting, minuteMs: nowMs, rejected: 1 }]);
  const sums = await database.query({
    text: `select step, sum(accepted)::int as accepted, count(*)::int as rows from history where webhook_id = any ($1) group by 1 order by 1`,
    values: [`{${accepting},00000000-0000-0000-0000-000000000000}`],
  });
  expect(sums).toEqual([60, 900, 3_600].map((step) => ({ step, accepted: step === 60 ? 9 : 18, rows: 2 })));
  expect(await readRefusedRequests(database, nowMs + MINUTE_MS)).toMatchObject([
    { webhook_id: failing, accepted: 0, rejected: 2, verified_at: null },
    { webhook_id: accepting, accepted: 9, rejected: 1, verified_at: iso(nowMs) },
  ]);
});

test('the ids for the read-ahead begin with the newest events', async () => {
  const { database } = await ofTest(freshDatabase());
  const ids = Array.from({ length: 4 }, () => randomUUID());
  await database.query({
    text: `insert into webhooks (id, name, created_at, last_event_at, deleted_at)
           values ($1, 'a', now() - interval '3 days', null, null), ($2, 'b', now() - interval '2 days', null, null),
             ($3, 'c', now() - interval '9 days', now() - interval '1 hour', null), ($4, 'd', now(), now(), now())`,
    values: ids,
  });
  expect(await readWebhookIds(database, 10)).toBe([ids[2], ids[1], ids[0]].join(','));
  expect(await readWebhookIds(database, 2)).toBe([ids[2], ids[1]].join(','));
  await addHistory(database, [{ webhookId: ids[0]!, minuteMs: Date.now(), accepted: 1, lastEventMs: Date.now() }]);
  expect(await readWebhookIds(database, 2)).toBe([ids[0], ids[2]].join(','));
});

test('the busiest webhooks of 24 hours come first', async () => {
  const [past, steady, today] = [await addWebhook(), await addWebhook(), await addWebhook()];
  await add(past, 30 * HOUR_MS, { accepted: 50_000 });
  for (let hours = 0; hours < 24; hours++) await add(steady, hours * HOUR_MS, { accepted: 100 });
  await add(today, HOUR_MS, { accepted: 2_000 });
  const items = await readWebhookHistory(fresh.database, nowMs - 23 * HOUR_MS, 2, null);
  expect(items.map(({ webhook_id, accepted }) => [webhook_id, accepted])).toEqual([
    [steady, 2_400],
    [today, 2_000],
  ]);
});

/** Hours ago with events, and whether the webhook is silent. */
test.each([
  ['had an event each hour, and none for two', range(2, 30), true],
  ['had an event each hour until an hour ago', range(1, 30), false],
  ['was used in fewer hours', range(3, 26), false],
  ['had a longer pause', [...range(3, 20), ...range(22, 40)], false],
  ['had a pause of less than half the silence', [...range(5, 20), ...range(21, 40)], true],
  ['had a pause before these seven days', [...range(3, 30), 200], true],
  ['had its events before', range(150, 190), false],
])('a webhook that %s: by its history', async (_what, hoursAgo, isSilent) => {
  const id = await addWebhook();
  // Not in the order of time: an older hour of another process.
  for (const hours of hoursAgo.toReversed())
    await add(id, hours * HOUR_MS, { accepted: 1, lastEventMs: nowMs - hours * HOUR_MS - 1 });
  await add(id, hoursAgo[3]! * HOUR_MS, { accepted: 1 });
  const silent = (await readSilentWebhooks(fresh.database, nowMs)).map(({ webhook_id }) => webhook_id);
  expect(silent.includes(id)).toBe(isSilent);
});

function range(from: number, to: number): number[] {
  return Array.from({ length: to - from }, (_, i) => from + i);
}
