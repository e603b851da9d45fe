/** What people and agents do with events and deliveries that are in several cells. */
import { beforeEach, expect, test } from 'vitest';
import { DatabaseUnavailable } from '../../../server/store/connect/unavailable.ts';
import { countUndelivered } from '../../../server/store/queries/alerts/undelivered.ts';
import { send, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { startRunner } from '../../helpers/jobs.ts';
import { createConflictOnce } from '../../helpers/postgres.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(2));

let webhooks: TestWebhook[];
let agent: TestAgent;
beforeEach(async () => {
  webhooks = [await app.webhookIn(0), await app.webhookIn(1), await app.webhookIn(2)];
  agent = await app.agentOf(webhooks);
});

const api = async (method: string, path: string, body?: unknown) => {
  const answer = await app.administrator.api(method, `/api/v1${path}`, body);
  if (answer.status >= 300) throw new Error(`${method} ${path}: ${answer.status} ${answer.text}`);
  return answer.body;
};
const sendToAll = async () => {
  const ids = [];
  for (const webhook of webhooks) ids.push(await send(webhook));
  return ids;
};
const killAll = async () => {
  for (const { receipt } of await agent.claim()) await agent.nack([receipt], { reason: 'broken', delay_seconds: 0 });
};
/** Refuses until every delivery is a dead letter. */
const makeDead = async (count: number) => {
  for (let i = 0; i < 10; i++) await killAll();
  expect((await api('GET', `/deliveries/counts?agent_id=${agent.id}`)).dead).toBe(count);
};

test('dead letters of all cells are counted, grouped, replayed and undone together', async () => {
  await sendToAll();
  await makeDead(3);
  const { items } = await api('GET', `/deliveries/dead?agent_id=${agent.id}`);
  expect(items).toMatchObject([{ reason: 'broken', deliveries: 3, agents: 1 }]);
  const replayed = await api('POST', '/deliveries/replay', { agent_id: agent.id, state: 'dead' });
  expect(replayed).toMatchObject({ replayed: 3, more: false });
  expect(await api('POST', '/deliveries/undo', { action_id: replayed.action_id })).toMatchObject({
    restored: 3,
    others: 0,
  });
  expect(await api('POST', '/deliveries/dismiss', { agent_id: agent.id })).toMatchObject({ dismissed: 3 });
});

test('one event is replayed where it is, to an agent that is not subscribed as well', async () => {
  const [, id] = await sendToAll();
  const stranger = await app.agentOf([]);
  await api('POST', `/events/${id}/replay`, { agent_ids: [stranger.id], beyond_subscriptions: true });
  const claimed = await stranger.claim();
  expect(claimed.map(({ event }) => event.id)).toEqual([id]);
  expect(await stranger.ack(claimed.map(({ receipt }) => receipt))).toMatchObject({ gone: [] });
  const detail = await api('GET', `/events/${id}`);
  expect(detail.id).toBe(id);
  const { items } = await api('GET', `/deliveries?event_id=${id}`);
  expect(items.map(({ agent_id }: { agent_id: string }) => agent_id).sort()).toEqual([agent.id, stranger.id].sort());
});

test('a replay by a job delivers each event of every cell once', async () => {
  const sent = [...(await sendToAll()), ...(await sendToAll())];
  for (const { receipt } of await agent.claim()) await agent.ack([receipt]);
  const { job_id: id } = await api('POST', '/events/replay', { agent_ids: [agent.id] });
  const runner = startRunner(app, 1_000_000, app.primary);
  try {
    await until(async () => (await api('GET', `/jobs/${id}`)).state === 'done');
  } finally {
    await runner.stop();
  }
  const again = await agent.claim();
  expect(again.map(({ event }) => event.id).sort()).toEqual(sent.sort());
});

test('max_leased holds over all cells', async () => {
  const limited = await app.agentOf(webhooks, '--max-leased', '2');
  await sendToAll();
  const first = await limited.claim();
  expect(first).toHaveLength(2);
  expect(await limited.claim()).toEqual([]);
  await limited.ack([first[0]!.receipt]);
  expect(await limited.claim()).toHaveLength(1);
});

test('filters judge in every cell, and a change counts when it is confirmed', async () => {
  const picky = await app.agentOf([]);
  for (const { id } of webhooks)
    await api('PUT', `/agents/${picky.id}/subscriptions/${id}`, { filter: 'body.kind == "wanted"' });
  for (const webhook of webhooks) {
    await send(webhook, '{"kind":"wanted"}');
    await send(webhook, '{"kind":"other"}');
  }
  const claimed = await picky.claim();
  expect(claimed.map(({ event }) => JSON.parse(event.body!).kind)).toEqual(['wanted', 'wanted', 'wanted']);
  await picky.ack(claimed.map(({ receipt }) => receipt));
  for (const { id } of webhooks) await api('PUT', `/agents/${picky.id}/subscriptions/${id}`, { filter: null });
  for (const webhook of webhooks) await send(webhook, '{"kind":"other"}');
  expect(await picky.claim()).toHaveLength(3);
});

test('what a revoked agent left in any cell is counted, and moves to another one', async () => {
  await sendToAll();
  const heir = await app.agentOf([]);
  await api('DELETE', `/agents/${agent.id}`);
  expect(await countUndelivered(app.primary.database.query, [agent.id, heir.id])).toEqual(new Map([[agent.id, 3]]));
  expect(await api('POST', `/agents/${agent.id}/undelivered`, { to_agent_id: heir.id })).toMatchObject({ settled: 3 });
  expect(await heir.claim()).toHaveLength(3);
});

test('a repeated request is known in its cell', async () => {
  const webhook = await app.webhookIn(1, '--dedupe-header', 'x-id');
  const post = async () => {
    const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret, headers: { 'x-id': 'one' } }));
    return [response.status, ((await response.json()) as { id: string }).id];
  };
  const [status, id] = await post();
  expect(status).toBe(202);
  expect(await post()).toEqual([200, id]);
});

test('a batch is stored in the cell of its webhook', async () => {
  const response = await fetch(
    `${webhooks[2]!.url}/batch`,
    signedRequest({ secret: webhooks[2]!.secret, body: '{"a":1}\n{"a":2}\n' }),
  );
  const { ids } = (await response.json()) as { ids: string[] };
  expect(response.status).toBe(202);
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual(ids);
});

test('a rejection that is accepted is stored in the cell of its webhook', async () => {
  const [, webhook] = webhooks as [TestWebhook, TestWebhook];
  expect((await fetch(webhook.url, signedRequest({ secret: 'of the sender' }))).status).toBe(403);
  const [rejection] = await until(async () => {
    const { items } = await api('GET', `/rejections?webhook_id=${webhook.id}`);
    return items.length > 0 && items;
  });
  await api('POST', `/webhooks/${webhook.id}/rotate-secret`, { secret: 'of the sender' });
  const setMoving = (from: string) =>
    app.primary
      .numbered(1)
      .database.query({ text: `update webhooks set moving_from = ${from} where id = $1`, values: [webhook.id] });
  // Until the keys of a webhook that moves here have followed, nothing with a key is stored.
  await setMoving('2');
  const path = `/api/v1/rejections/${rejection.id}/accept`;
  expect((await app.administrator.api('POST', path)).body.code).toBe('webhook_moving');
  await setMoving('null');
  const { event_id: id } = await api('POST', `/rejections/${rejection.id}/accept`);
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual([id]);
  expect((await api('GET', `/rejections/${rejection.id}`)).accepted_event_id).toBe(id);
});

test('activity, counts and search are over all cells', async () => {
  const ids = await sendToAll();
  const activity = (await api('GET', `/agents/activity?agent_ids=${agent.id}`)).items[0];
  expect(activity.waiting_since).not.toBeNull();
  expect(await api('GET', `/deliveries/counts?agent_id=${agent.id}`)).toMatchObject({ pending: 3, exact: true });
  expect((await api('GET', `/events/deliveries?event_ids=${ids.join(',')}`)).items).toHaveLength(3);
  await send(webhooks[1]!, '{"needle":"in cell one"}');
  const found = await api('GET', '/events?q=in%20cell%20one&limit=1');
  expect(found.items).toHaveLength(1);
});

test('a conflict at the commit of a cell repeats the whole transaction, unless another cell has committed', async () => {
  const statements = `
    create table kept (n int);
    ${createConflictOnce};
    create constraint trigger conflict_once after insert on kept initially deferred for each row execute function conflict_once()`;
  for (const { database } of app.cells) await database.query({ text: statements });
  const keep = (n: number, ...cells: number[]) =>
    app.primary.database.transaction(async (query) => {
      for (const cell of cells) await query({ text: `insert into kept values (${n})`, place: { cell } });
    });
  const kept = () => Promise.all(app.cells.map(({ database }) => database.query({ text: 'select n from kept' })));
  await keep(1, 1);
  expect(await kept()).toEqual([[{ n: 1 }], []]);
  await expect(keep(2, 1, 2)).rejects.toThrow(DatabaseUnavailable);
  expect(await kept()).toEqual([[{ n: 1 }, { n: 2 }], []]);
});
