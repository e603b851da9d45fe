import { afterAll, beforeAll, expect, test } from 'vitest';
import { createPartitions } from '../../../server/db/partitions.ts';
import { addHistory } from '../../../server/db/queries/history.ts';
import { Tally } from '../../../server/live/tally.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import type { TestApp, TestWebhook } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';

const MINUTE_MS = 60_000;
const HOUR_MS = 3_600_000;
let app: TestApp;
beforeAll(async () => {
  app = await startAgentApp();
});
afterAll(() => app.stop());

const add = (webhook: TestWebhook, atMs: number, counts: { accepted?: number; rejected?: number; limited?: number }) =>
  addHistory(app.database, [
    {
      webhookId: webhook.id,
      minuteMs: Math.floor(atMs / MINUTE_MS) * MINUTE_MS,
      accepted: 0,
      duplicates: 0,
      rejected: 0,
      limited: 0,
      bytes: 0,
      ...counts,
    },
  ]);

/** Events in each of the last `hours` hours that `isActive` selects; the newest is `silentHours` ago. */
async function addPast(webhook: TestWebhook, silentHours: number, isActive: (hoursAgo: number) => boolean) {
  for (let hoursAgo = silentHours; hoursAgo < 160; hoursAgo++)
    if (isActive(hoursAgo)) await add(webhook, Date.now() - hoursAgo * HOUR_MS, { accepted: 1 });
  await app.database.query({
    text: `update webhooks set last_event_at = now() - make_interval(hours => $2) where id = $1`,
    values: [webhook.id, silentHours],
  });
}

test('problems are listed with what they concern, and usual states are not listed', async () => {
  const viewer = await addPerson(app, 'viewer');
  const named = (name: string, more = {}) => app.addWebhook({ name, ...more });
  const nowMs = Date.now();

  const [refused, strays] = [await named('refused'), await named('strays')];
  await add(refused, nowMs - 10 * MINUTE_MS, { accepted: 100, rejected: 3 });
  await add(refused, nowMs - 5 * MINUTE_MS, { rejected: 2 });
  await add(strays, nowMs, { rejected: 4 });
  await add(strays, nowMs - 2 * HOUR_MS, { rejected: 500 });

  const [limited, bursts] = [await named('limited'), await named('bursts')];
  await add(limited, nowMs, { accepted: 180, limited: 20 });
  await add(bursts, nowMs, { accepted: 182, limited: 20 });

  const [silent, nightly, rare] = [await named('silent'), await named('nightly'), await named('rare')];
  await addPast(silent, 3, () => true);
  // Nothing for 12 of 24 hours: a pause of 20 is not yet unusual.
  await addPast(nightly, 20, (hoursAgo) => Math.floor(hoursAgo / 12) % 2 === 1);
  await addPast(rare, 90, (hoursAgo) => hoursAgo < 100);
  const switchedOff = await named('switched off', { enabled: false });
  await addPast(switchedOff, 3, () => true);

  const webhook = await named('deliveries');
  const dead = await addAgent(app, [webhook]);
  await send(webhook);
  await send(webhook);
  await app.database.query({
    text: `update deliveries set state = 'dead', finished_at = now(), attempts = 10 where agent_id = $1`,
    values: [dead.id],
  });
  const late = await addAgent(app, [webhook]);
  await send(webhook);
  await app.database.query({
    text: `update deliveries set available_at = now() - interval '27 minutes' where agent_id = $1`,
    values: [late.id],
  });

  // The state after an upgrade.
  const upgraded = await addAgent(app, [refused, strays, limited]);
  for (const [{ id }, filter] of [
    [refused, 'gone(body)'],
    [strays, 'also_gone'],
    [limited, 'bytes > 1'],
  ] as const)
    await app.database.query({
      text: 'update subscriptions set filter = $3 where agent_id = $1 and webhook_id = $2',
      values: [upgraded.id, id, filter],
    });

  // Retention keeps 30 days, so this day is dropped at the end of today.
  const oldMs = nowMs - 30 * 24 * HOUR_MS;
  await createPartitions(app.database, oldMs);
  await app.database.query({
    text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
           values (gen_random_uuid(), $1, gen_random_uuid(), gen_random_uuid(), $2, 0, now())`,
    values: [webhook.id, new Date(oldMs).toISOString()],
  });
  // A day that was detached and could not be archived.
  await app.database.query({ text: 'create table events_20200101 (like events)' });

  const tally = new Tally(nowMs);
  tally.take(4711, { ...app.app.sample(), rateLimitStore: 'degraded' }, nowMs - HOUR_MS);
  app.app.live(tally.second(nowMs, null));

  const { items } = (await viewer.api('GET', '/api/v1/problems')).body;
  const of = (kind: string) => items.filter((item: { kind: string }) => item.kind === kind);
  expect(of('process')).toMatchObject([{ name: '4711' }]);
  expect(of('rate_limits')).toHaveLength(1);
  expect(of('rejections')).toMatchObject([{ webhook_id: refused.id, name: 'refused', count: 5 }]);
  expect(of('limited')).toMatchObject([{ webhook_id: limited.id, name: 'limited', count: 20 }]);
  expect(of('silent')).toMatchObject([{ webhook_id: silent.id, name: 'silent' }]);
  expect(of('dead_letters')).toMatchObject([{ agent_id: dead.id, count: 2 }]);
  expect(of('pending')).toMatchObject([{ agent_id: late.id }]);
  expect(of('filter')).toMatchObject([{ agent_id: upgraded.id, count: 2 }]);
  expect(of('expiring')).toMatchObject([{ count: 1 }]);
  expect(of('archive')).toMatchObject([{ count: 1 }]);
  expect(items).toHaveLength(10);
});
