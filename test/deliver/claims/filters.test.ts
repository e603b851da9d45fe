/** Claims of agents whose subscriptions have filters. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { readCandidates } from '../../../server/store/queries/claims/candidates.ts';
import {
  addAgent,
  agentsOf,
  letPass,
  rowOf,
  send,
  startAgentApp,
  startSecondApp,
  storeEvents,
  subscribed,
  type TestAgent,
} from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { orderOf } from '../../helpers/claims.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const other = shared(() => startSecondApp(app));
const operator = shared(() => addPerson(app, 'operator'));

const eventIds = (deliveries: readonly { event: { id: string } }[]) => deliveries.map(({ event }) => event.id);

async function agentWith(filter: string | null): Promise<{ webhook: TestWebhook; agent: TestAgent }> {
  const { webhook, agent } = await subscribed(app);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter }));
  return { webhook, agent };
}

const statesOf = async ({ id }: TestAgent) => {
  const rows = await app.sql<{ state: string; count: number }>(
    'select state, count(*)::int as count from deliveries where agent_id = $1 group by state',
    id,
  );
  return Object.fromEntries(rows.map(({ state, count }) => [state, count]));
};

/** Stores events of which only every `each`-th passes `event_type == "wanted"`. */
async function storeMixed(webhook: TestWebhook, count: number, each: number): Promise<string[]> {
  const ids = await storeEvents(app.database, webhook.id, count);
  const wanted = ids.filter((_, place) => place % each === each - 1);
  await app.sql(
    `update events set event_type = 'wanted' where webhook_id = $1 and id = any ($2::uuid[])`,
    webhook.id,
    `{${wanted.join(',')}}`,
  );
  return wanted;
}

test('an excluded event is not claimed; its delivery is filtered, visible, and replayable', async () => {
  const { webhook, agent } = await agentWith('body.action == "opened" || body.action == "closed"');
  const wanted = await send(webhook, '{"action":"opened"}');
  const unwanted = await send(webhook, '{"action":"edited"}');
  expect(eventIds(await agent.claim())).toEqual([wanted]);
  const list = await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}&state=filtered`);
  expect(list.body.items).toMatchObject([{ event_id: unwanted, state: 'filtered', attempts: 0 }]);
  const { id, finished_at: at } = list.body.items[0];
  expect(at).not.toBeNull();
  expect((await operator.api('GET', `/api/v1/deliveries/${id}/attempts`)).body.items).toMatchObject([
    { outcome: 'filtered', at, lease: null },
  ]);
  const counts = await operator.api('GET', `/api/v1/events/deliveries?event_ids=${unwanted}`);
  expect(counts.body.items).toMatchObject([{ event_id: unwanted, filtered: 1, pending: 0 }]);
  expect((await operator.api('POST', `/api/v1/deliveries/${id}/dismiss`)).body.code).toBe('delivery_not_dead');

  const order = { agent_id: agent.id, state: 'filtered' };
  const { body } = await operator.api('POST', '/api/v1/deliveries/replay', order);
  expect(body.replayed).toBe(1);
  await operator.api('POST', '/api/v1/deliveries/undo', { action_id: body.action_id });
  expect(await agent.claim()).toEqual([]);
  expect(await rowOf(app.database, id)).toMatchObject({ state: 'filtered', finished: true });
  expect((await operator.api('POST', `/api/v1/deliveries/${id}/replay`)).body.state).toBe('pending');
  expect(eventIds(await agent.claim())).toEqual([unwanted]);
});

test('what was leased is returned although a later slice fails', async () => {
  const { webhook, agent } = await agentWith('event_type == "wanted"');
  const wanted = await storeMixed(webhook, 100, 10);
  // Claims take deliveries of one moment in the order in which they were stored.
  const [last] = await app.sql<{ id: string }>(
    `select id from deliveries where agent_id = $1 and event_id <> all ($2::uuid[]) order by ctid desc limit 1`,
    agent.id,
    `{${wanted.join(',')}}`,
  );
  await app.sql(
    `create function refuse() returns trigger language plpgsql as $$ begin raise exception 'refused'; end $$`,
  );
  await app.sql(
    `create trigger refuse before update on deliveries for each row when (new.id = '${last!.id}') execute function refuse()`,
  );
  const first = await agent.claim({ max: 10 });
  expect(first.length).toBeGreaterThan(0);
  expect(first.length).toBeLessThan(10);
  await app.sql('drop function refuse() cascade');
  const rest = await agent.claim({ max: 10 });
  expect(eventIds([...first, ...rest]).toSorted()).toEqual(wanted.toSorted());
});

test('a delivery that was leased before is not judged again', async () => {
  const { webhook, agent } = await agentWith(null);
  const event = await send(webhook, '{"action":"edited"}');
  const delivery = await agent.claimOne();
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: 'body.action == "opened"' }));
  await agent.nack([delivery.receipt], { delay_seconds: 0 });
  const unwanted = await send(webhook, '{"action":"edited"}');
  expect(eventIds(await agent.claim())).toEqual([event]);
  await letPass(app.database, 3600);
  expect(eventIds(await agent.claim({ max: 1 }))).toEqual([event]);
  expect(await statesOf(agent)).toEqual({ leased: 1, filtered: 1 });
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: null }));
  const next = await send(webhook, '{"action":"edited"}');
  expect(eventIds(await agent.claim())).toEqual([next]);
  expect(unwanted).not.toBe(next);
});

test('a retry is claimable while no webhook has an event to judge', async () => {
  const webhooks = await Promise.all([app.addWebhook(), app.addWebhook()]);
  const agent = await addAgent(app, webhooks);
  for (const { id } of webhooks) made(await agentsOf(app).subscribe(agent.id, id, { filter: 'body.ok' }));
  for (const webhook of webhooks) {
    const event = await send(webhook, '{"ok":true}');
    const delivery = await agent.claimOne();
    await agent.nack([delivery.receipt], { delay_seconds: 0 });
    expect(eventIds(await agent.claim())).toEqual([event]);
  }
});

test('a retry is claimable after a claim that found no room under max_leased', async () => {
  const { webhook, agent } = await agentWith('body.ok');
  const sent = [await send(webhook, '{"ok":true}'), await send(webhook, '{"ok":true}')];
  const [first, second] = await agent.claim();
  await agent.nack([first!.receipt], { delay_seconds: 0 });
  await app.sql(
    `update deliveries set available_at = available_at - interval '1 hour' where agent_id = $1 and state = 'pending'`,
    agent.id,
  );
  made(await agentsOf(app).update(agent.id, { max_leased: 1 }));
  await send(webhook, '{"ok":false}');
  // A process that has no watermark of the agent yet.
  const there = agent.at(other);
  expect(await there.claim()).toEqual([]);
  await agent.ack([second!.receipt]);
  expect(eventIds(await there.claim())).toEqual(sent.slice(0, 1));
});

test('a webhook is reached past many others that have a filter and no event', async () => {
  const webhooks = await Promise.all(Array.from({ length: 20 }, () => app.addWebhook()));
  const agent = await addAgent(app, webhooks);
  for (const { id } of webhooks) made(await agentsOf(app).subscribe(agent.id, id, { filter: 'body.ok' }));
  const last = webhooks.toSorted((a, b) => (a.id < b.id ? -1 : 1)).at(-1)!;
  const event = await send(last, '{"ok":true}');
  expect(eventIds(await agent.claim({ max: 1 }))).toEqual([event]);
});

test('a waiting claim returns the first event that passes, and a filter that is set during the wait is used', async () => {
  const { webhook, agent } = await agentWith(null);
  const claim = agent.claim({ wait_seconds: 30 });
  await until(() => app.metric('weir_claims_waiting').then((waiting) => waiting > 0));
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: 'body.n == 2' }));
  await send(webhook, '{"n":1}');
  await until(async () => (await statesOf(agent)).filtered === 1);
  const wanted = await send(webhook, '{"n":2}');
  expect(eventIds(await claim)).toEqual([wanted]);
});

describe('a filter that fails', () => {
  const failuresOf = async ({ id }: TestAgent) => {
    const [row] = await app.sql<{ failures: number; reason: string | null }>(
      `select filter_failures::int as failures, filter_failure as reason from subscriptions where agent_id = $1`,
      id,
    );
    return row!;
  };

  test('on an event delivers and counts it, until another filter is set', async () => {
    const { webhook, agent } = await agentWith('body.amount > 10');
    const sent = [await send(webhook, '{"amount":"11"}'), await send(webhook, 'no JSON')];
    await send(webhook, '{"amount":1}');
    expect(eventIds(await agent.claim())).toEqual(sent);
    await until(async () => (await failuresOf(agent)).failures === 2);
    expect(await failuresOf(agent)).toEqual({ failures: 2, reason: 'No such key: amount' });
    made(await agentsOf(app).subscribe(agent.id, webhook.id, { filter: 'bytes > 10' }));
    expect(await failuresOf(agent)).toEqual({ failures: 0, reason: null });
  });

  test('because it is not valid in this version delivers every event, and is logged once', async () => {
    const { webhook, agent } = await agentWith('bytes > 1000');
    await app.sql(`update subscriptions set filter = 'nonsense(bytes)' where agent_id = $1`, agent.id);
    for (let i = 0; i < 2; i++) {
      const sent = await send(webhook);
      expect(eventIds(await agent.claim())).toEqual([sent]);
    }
    const logged = app.logLines.filter((line) => line.includes('filter_broken') && line.includes(agent.id));
    expect(logged).toHaveLength(1);
  });
});

test('concurrent claims of one agent at two processes get each event that passes exactly once', async () => {
  const { webhook, agent } = await agentWith('event_type == "wanted"');
  const wanted = await storeMixed(webhook, 600, 3);
  const got: string[] = [];
  const drain = async (consumer: TestAgent) => {
    // A claim that lost its slice to another one is empty, so emptiness is not an end.
    while (got.length < wanted.length) got.push(...eventIds(await consumer.claim({ max: 7, wait_seconds: 1 })));
  };
  await Promise.all([agent, agent, agent.at(other), agent.at(other)].map(drain));
  expect(got.toSorted()).toEqual(wanted.toSorted());
  await until(async () => (await agent.claim()).length === 0 && (await statesOf(agent)).filtered === 400);
  expect(await statesOf(agent)).toEqual({ leased: 200, filtered: 400 });
});

test('a claim looks through a long backlog that is almost all filtered', async () => {
  const { webhook, agent } = await agentWith('event_type == "wanted"');
  const wanted = await storeMixed(webhook, 5_000, 100);
  const got: string[] = [];
  while (got.length < wanted.length) got.push(...eventIds(await agent.claim({ max: 20, wait_seconds: 30 })));
  expect(got.toSorted()).toEqual(wanted.toSorted());
  await until(async () => (await agent.claim()).length === 0 && (await statesOf(agent)).pending === undefined);
  expect(await statesOf(agent)).toEqual({ leased: 50, filtered: 4_950 });
});

test('webhooks take turns, with and without a filter, and webhook_ids limits what is judged', async () => {
  const [one, two, three] = await Promise.all([app.addWebhook(), app.addWebhook(), app.addWebhook()]);
  const agent = await addAgent(app, [one, two, three]);
  for (const { id } of [one, two])
    made(await agentsOf(app).subscribe(agent.id, id, { filter: 'event_type == "wanted"' }));
  const wanted = new Map<string, string[]>();
  for (const webhook of [one, two]) wanted.set(webhook.id, await storeMixed(webhook, 12, 4));
  wanted.set(three.id, await storeEvents(app.database, three.id, 3));
  const limited = eventIds(await agent.claim({ webhook_ids: [one.id], max: 1, wait_seconds: 30 }));
  expect([limited.length, wanted.get(one.id)]).toEqual([1, expect.arrayContaining(limited)]);
  expect((await statesOf(agent)).pending).toBe(2 + 12 + 3);
  const turns: string[] = [];
  for (let i = 0; i < 8; i++) turns.push((await agent.claimOne({ wait_seconds: 30 })).event.webhook_id);
  const counts = [one, two, three].map(({ id }) => turns.filter((turn) => turn === id).length);
  expect(counts).toEqual([2, 3, 3]);
  expect(new Set(turns.slice(0, 3)).size).toBe(3);
  await until(async () => (await agent.claim()).length === 0 && (await statesOf(agent)).pending === undefined);
  expect(await statesOf(agent)).toEqual({ leased: 9, filtered: 18 });
});

test('claims with and without an order, of few and of many webhooks, judge over one connection', async () => {
  await app.database.transaction(async (query) => {
    for (const isOrdered of [false, true])
      for (const hasManyWebhooks of [false, true]) {
        const order = orderOf(randomUUID(), { isOrdered, hasManyWebhooks });
        expect(await readCandidates({ ...app.database, query }, order, 16, 1_000)).toEqual([]);
      }
  });
});

test('max_leased holds with a filter', async () => {
  const { webhook, agent } = await agentWith('event_type == "wanted"');
  made(await agentsOf(app).update(agent.id, { max_leased: 2 }));
  const wanted = await storeMixed(webhook, 40, 4);
  const first = await agent.claim();
  expect([first.length, wanted]).toEqual([2, expect.arrayContaining(eventIds(first))]);
  expect(await agent.claim()).toEqual([]);
  await agent.ack(first.map(({ receipt }) => receipt));
  const next = eventIds(await agent.claim());
  expect([next.length, wanted.filter((id) => !eventIds(first).includes(id))]).toEqual([
    2,
    expect.arrayContaining(next),
  ]);
});

test('the metrics count filtered deliveries and failures by agent', async () => {
  const { webhook, agent } = await agentWith(`body.a == "${randomUUID()}"`);
  await send(webhook, '{"a":1}');
  await send(webhook, '[]');
  expect(await agent.claim()).toHaveLength(1);
  const metrics = JSON.stringify(await app.app.metrics());
  const value = (name: string, labels: object) =>
    JSON.parse(metrics)
      .find((family: { name: string }) => family.name === name)
      .values.find((one: { labels: object }) => JSON.stringify(one.labels) === JSON.stringify(labels))?.value;
  expect(value('weir_deliveries_settled_total', { agent: agent.id, outcome: 'filtered' })).toBe(1);
  expect(value('weir_filter_failures_total', { agent: agent.id })).toBe(1);
});
