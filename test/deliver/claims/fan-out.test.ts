/** An event and its deliveries are committed together, or not at all. */
import { expect, test } from 'vitest';
import { addAgent, agentsOf, send, startAgentApp, subscribed } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(startAgentApp);

const subscribe = (webhookId: string, agentId: string) =>
  app.sql('insert into subscriptions (webhook_id, agent_id) values ($1, $2)', webhookId, agentId);

async function counts(
  webhook: TestWebhook,
): Promise<{ events: number; deliveries: number; orphans: number; missing: number }> {
  const [row] = await app.sql<{ events: number; deliveries: number; orphans: number; missing: number }>(
    `select (select count(*)::int from events where webhook_id = $1) as events,
        (select count(*)::int from deliveries where webhook_id = $1) as deliveries,
        (select count(*)::int from deliveries d where webhook_id = $1 and not exists
          (select from events e where e.received_at = d.received_at and e.id = d.event_id and e.webhook_id = d.webhook_id)) as orphans,
        (select count(*)::int from events e cross join subscriptions s where e.webhook_id = $1 and s.webhook_id = $1 and 1 <>
          (select count(*) from deliveries d where d.received_at = e.received_at and d.event_id = e.id and d.agent_id = s.agent_id)) as missing`,
    webhook.id,
  );
  return row!;
}

test('every subscribed agent gets its own delivery, other agents none', async () => {
  const webhook = await app.addWebhook();
  const agents = await Promise.all([addAgent(app, [webhook]), addAgent(app, [webhook]), addAgent(app, [webhook])]);
  const bystander = await addAgent(app, [await app.addWebhook()]);
  const id = await send(webhook);
  const deliveries = await Promise.all(agents.map((agent) => agent.claimOne()));
  expect(deliveries.map(({ event }) => event.id)).toEqual([id, id, id]);
  expect(new Set(deliveries.map((delivery) => delivery.id)).size).toBe(3);
  expect(await bystander.claim()).toEqual([]);
  // An acknowledgement of one agent does not affect the others.
  await agents[0]!.ack([deliveries[0]!.receipt]);
  expect(await agents[1]!.ack([deliveries[0]!.receipt])).toMatchObject({ done: [] });
  expect(await agents[1]!.ack([deliveries[1]!.receipt])).toMatchObject({ gone: [] });
});

test('a subscription applies from the next event on, and to no earlier event', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app);
  await send(webhook);
  await subscribe(webhook.id, agent.id);
  const id = await send(webhook);
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual([id]);
});

test('a subscription applies to every later event, under a load of COPYs that began earlier', async () => {
  const webhook = await app.addWebhook();
  let stopped = false;
  const lanes = Array.from({ length: 40 }, async () => {
    while (!stopped) await send(webhook);
  });
  try {
    await until(async () => (await counts(webhook)).events > 200);
    for (let round = 0; round < 10; round++) {
      const agent = await addAgent(app);
      await subscribe(webhook.id, agent.id);
      const ids = await Promise.all(Array.from({ length: 5 }, () => send(webhook)));
      const [row] = await app.sql<{ count: number }>(
        'select count(*)::int as count from deliveries where agent_id = $1 and event_id = any ($2::uuid[])',
        agent.id,
        `{${ids.join(',')}}`,
      );
      expect(row!.count).toBe(5);
    }
  } finally {
    stopped = true;
    await Promise.all(lanes);
  }
});

test('a revoked agent gets no new deliveries; existing ones are kept', async () => {
  const { webhook, agent } = await subscribed(app);
  await send(webhook);
  await agentsOf(app).revoke(agent.id);
  await send(webhook);
  expect(await counts(webhook)).toMatchObject({ events: 2, deliveries: 1, orphans: 0 });
});

test('no delivery is without its event and no event without its delivery while COPYs are killed repeatedly', async () => {
  const webhook = await app.addWebhook();
  await Promise.all([addAgent(app, [webhook]), addAgent(app, [webhook])]);
  const accepted = new Set<string>();
  let stopped = false;
  const lanes = Array.from({ length: 40 }, async () => {
    while (!stopped) {
      const response = await fetch(webhook.url, signedRequest({ secret: webhook.secret }));
      expect([202, 503]).toContain(response.status);
      const body = (await response.json()) as { id: string };
      if (response.status === 202) accepted.add(body.id);
    }
  });
  const text = `select pg_terminate_backend(pid) from pg_stat_activity
                where application_name = 'weir-copy' and state = 'active' and datname = current_database()`;
  let killed = 0;
  try {
    while (killed < 12) {
      const before = accepted.size;
      await until(() => accepted.size > before + 20);
      killed += (await app.sql(text)).length;
    }
  } finally {
    stopped = true;
    await Promise.all(lanes);
  }
  const { events, ...rest } = await counts(webhook);
  expect(rest).toEqual({ deliveries: events * 2, orphans: 0, missing: 0 });
  expect(events).toBeGreaterThanOrEqual(accepted.size);
  const rows = await app.sql<{ id: string }>('select id from events where webhook_id = $1', webhook.id);
  const stored = new Set(rows.map(({ id }) => id));
  expect([...accepted].filter((id) => !stored.has(id))).toEqual([]);
});
