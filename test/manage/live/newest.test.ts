/** Results of the query of a process, over real events. */
import { randomUUID } from 'node:crypto';
import { setTimeout as delay, setImmediate as nextTurn } from 'node:timers/promises';
import { expect, test, vi } from 'vitest';
import { type FoundEvents, LOOK_EVENTS_MAX, NewestEvents, OVERLAP_MS } from '../../../server/manage/live/newest.ts';
import type { Database, DatabasePool } from '../../../server/store/connect/pool.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';
import { readNewest } from '../../../server/store/queries/events/events.ts';
import { fakeTimers } from '../../helpers/clock.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

/** Shorter than the product's second. */
const EVERY_MS = 100;

const fresh = shared(freshDatabase);

async function insert(webhookId: string, receivedMs = Date.now(), count = 1): Promise<string[]> {
  const ids = Array.from({ length: count }, () =>
    uuidText(uuidv7(receivedMs, crypto.getRandomValues(new Uint8Array(16)))),
  );
  await fresh.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
           select id, $2, $3, '127.0.0.1', '', '', 0 from unnest($1::uuid[]) id`,
    `{${ids.join(',')}}`,
    webhookId,
    new Date(receivedMs).toISOString(),
  );
  return ids;
}

/** Everything that was found so far, by webhook; '' is all of them. */
function watching(database = fresh.database, everyMs = EVERY_MS) {
  const found = new Map<string, FoundEvents[]>();
  const newest = new NewestEvents(
    database,
    (webhookId, one) => {
      found.set(webhookId ?? '', [...(found.get(webhookId ?? '') ?? []), one]);
    },
    everyMs,
  );
  const ids = (key: string) => (found.get(key) ?? []).flatMap(({ events }) => events.map(({ id }) => id));
  return { newest, found, ids };
}

test('events from before a watch are not new, even if another watch has just ended', async () => {
  const webhookId = randomUUID();
  const nowMs = Date.now();
  // So old that it leaves the overlap within the next second.
  for (let ms = OVERLAP_MS - 1_000; ms <= OVERLAP_MS + 1_000; ms += 50) await insert(webhookId, nowMs - ms);
  const { newest, ids } = watching(fresh.database, 1_000);
  await newest.watch(null);
  await delay(700);
  newest.unwatch(null);
  await newest.watch(null);
  await newest.watch(webhookId);
  const [added] = await insert(webhookId);
  await until(() => ids('').includes(added!) && ids(webhookId).includes(added!));
  expect([ids(''), ids(webhookId)]).toEqual([[added], [added]]);
  newest.unwatch(null);
  newest.unwatch(webhookId);
});

test('an event in the overlap is found once', async () => {
  const webhookId = randomUUID();
  const { newest, ids } = watching();
  await newest.watch(webhookId);
  const first = await insert(webhookId);
  await until(() => ids(webhookId).length === 1);
  const second = await insert(webhookId, Date.now() - 8_000);
  await until(() => ids(webhookId).length === 2);
  const third = await insert(webhookId);
  await until(() => ids(webhookId).length > 2);
  expect(ids(webhookId)).toEqual([...first, ...second, ...third]);
  newest.unwatch(webhookId);
});

test.each([
  [LOOK_EVENTS_MAX - 1, LOOK_EVENTS_MAX - 1, false],
  [LOOK_EVENTS_MAX + 1, LOOK_EVENTS_MAX, true],
])('of %d concurrent events %d are found; more: %s', async (count, expected, more) => {
  const webhookId = randomUUID();
  const { newest, found, ids } = watching();
  await newest.watch(webhookId);
  await insert(webhookId, Date.now(), count);
  await until(() => found.has(webhookId));
  expect([ids(webhookId).length, found.get(webhookId)![0]!.more]).toEqual([expected, more]);
  newest.unwatch(webhookId);
});

test('a quiet webhook is found beside a busy one', async () => {
  const [quiet, busy] = [randomUUID(), randomUUID()];
  const { newest, ids } = watching();
  await newest.watch(quiet);
  const [id] = await insert(quiet);
  await insert(busy, Date.now() + 1, 5 * LOOK_EVENTS_MAX);
  await until(() => ids(quiet).length > 0);
  expect(ids(quiet)).toEqual([id]);
  newest.unwatch(quiet);
});

test('any number of watches of one webhook are one query a time, and none are left after them', async () => {
  fakeTimers({ toFake: ['setTimeout', 'clearTimeout'] });
  let [asked, answered] = [0, 0];
  const query: Database['query'] = async (statement) => {
    asked++;
    const rows = await fresh.database.query(statement);
    answered++;
    return rows;
  };
  const { newest } = watching({ ...fresh.database, query });
  const lookAgain = async () => {
    vi.advanceTimersByTime(EVERY_MS);
    await until(() => answered === asked);
    await nextTurn();
  };
  const watches = [...Array.from({ length: 15 }, () => randomUUID()), ...Array(25).fill(null)];
  await Promise.all(watches.map((id) => newest.watch(id)));
  // One for each webhook when it is first watched, and one for all webhooks.
  expect(asked).toBe(16);
  for (let look = 1; look <= 3; look++) {
    await lookAgain();
    expect(asked).toBe(16 + look);
  }
  for (const id of watches) newest.unwatch(id);
  await lookAgain();
  const last = asked;
  await lookAgain();
  expect(asked).toBe(last);
});

test('events during an outage of the query are found after it', async () => {
  const webhookId = randomUUID();
  let failed = 0;
  const counted: DatabasePool = {
    ...fresh.database,
    query: (statement) =>
      fresh.database.query(statement).catch((error) => {
        failed++;
        throw error;
      }),
  };
  const { newest, ids } = watching(counted);
  await newest.watch(webhookId);
  const run = (text: string) => fresh.sql(text);
  // One transaction, so that no query runs in between.
  const id = uuidText(uuidv7(Date.now(), crypto.getRandomValues(new Uint8Array(16))));
  await run(`begin;
    alter table events rename to hidden;
    insert into hidden (id, webhook_id, received_at, source_ip, headers, body, bytes)
    values ('${id}', '${webhookId}', now(), '127.0.0.1', '', '', 0);
    commit`);
  await until(() => failed > 0);
  // Now the event is older than the range that a later poll reads.
  fakeTimers({ toFake: ['Date'], now: Date.now() + OVERLAP_MS + 2_000 });
  const failedBefore = failed;
  await until(() => failed > failedBefore);
  await run('alter table hidden rename to events');
  await until(() => ids(webhookId).length > 0);
  expect(ids(webhookId)).toEqual([id]);
  newest.unwatch(webhookId);
});

test('the events of many watched webhooks are found, each for its webhook', async () => {
  const webhookIds = Array.from({ length: 25 }, () => randomUUID());
  const { newest, ids } = watching();
  for (const id of [null, ...webhookIds]) await newest.watch(id);
  const inserted = new Map<string, string[]>();
  for (const id of webhookIds) inserted.set(id, await insert(id, Date.now(), 2));
  await insert(randomUUID());
  await until(() => ids('').length === 51 && webhookIds.every((id) => ids(id).length === 2));
  for (const id of webhookIds) expect(ids(id).sort()).toEqual(inserted.get(id)!.sort());
  for (const id of [null, ...webhookIds]) newest.unwatch(id);
});

test('of many watched webhooks, the newest events of each are found up to the limit', async () => {
  const webhookIds = Array.from({ length: 25 }, () => randomUUID());
  const nowMs = Date.now();
  const stored: string[] = [];
  for (let ms = LOOK_EVENTS_MAX + 1; ms > 0; ms--) stored.push(...(await insert(webhookIds[0]!, nowMs - ms)));
  const rows = await readNewest(fresh.database, webhookIds, nowMs - OVERLAP_MS, LOOK_EVENTS_MAX);
  expect(rows.map(({ event }) => event.id)).toEqual(stored.slice(1).reverse());
  expect(rows.every(({ watched }) => watched === webhookIds[0])).toBe(true);
});
