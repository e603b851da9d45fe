/** What an agent sees of itself, while it is paused, and after the end of a subscription. */
import { expect, test } from 'vitest';
import {
  addAgent,
  agentsOf,
  letPass,
  request,
  send,
  startAgentApp,
  startSecondApp,
  subscribed,
} from '../../helpers/agents.ts';
import { weirJson } from '../../helpers/command.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));
const operator = shared(() => addPerson(app, 'operator'));

test('GET /api/v1/agent/me counts pending deliveries and returns the age of the oldest', async () => {
  const { webhook, agent } = await subscribed(app);
  const me = async () => (await request(`${app.url}/api/v1/agent/me`, agent.token)).body;
  expect(await me()).toMatchObject({ id: agent.id, pending: 0, oldest_pending_seconds: null });
  await send(webhook);
  await letPass(app.database, 90);
  await send(webhook);
  const { pending, oldest_pending_seconds: oldest } = await me();
  expect(pending).toBe(2);
  expect(oldest).toBeGreaterThanOrEqual(90);
  await agent.claim({ max: 2 });
  expect(await me()).toMatchObject({ pending: 0, oldest_pending_seconds: null });
});

test('GET /api/v1/agent/me says which webhooks the agent is subscribed to, and which of them verify', async () => {
  const [signed, open, byKey] = [
    await app.addWebhook({ name: 'signed' }),
    await app.addWebhook({ name: 'open', secret: null }),
    await app.addWebhook({ name: 'by key', signature_scheme: 'discord', public_key: 'ab'.repeat(32), secret: null }),
  ];
  const agent = await addAgent(app, [signed, open, byKey]);
  const { webhooks } = (await request(`${app.url}/api/v1/agent/me`, agent.token)).body;
  expect(webhooks).toEqual([
    { id: signed.id, name: 'signed', verified: true },
    { id: open.id, name: 'open', verified: false },
    { id: byKey.id, name: 'by key', verified: true },
  ]);
});

test('a paused agent gets nothing at any process, settles what it has, and continues once it is resumed', async () => {
  const { webhook, agent } = await subscribed(app);
  const path = `/api/v1/agents/${agent.id}`;
  await send(webhook);
  const held = await agent.claimOne();
  await send(webhook);

  const waits = agent.at(second).claim({ wait_seconds: 1 });
  expect(await waits).toHaveLength(1);
  await send(webhook);
  expect((await operator.api('PATCH', path, { paused: true })).body).toMatchObject({
    paused: true,
    paused_at: expect.stringMatching(/Z$/),
  });
  expect(await agent.claim()).toEqual([]);
  expect(await agent.at(second).claim({ wait_seconds: 1 })).toEqual([]);
  expect((await agent.extend([held.receipt], 60)).done).toEqual([held.receipt]);
  // The settlement of a claim is committed although it finds nothing.
  const settled = await agent.post('claim', { max: 1, lease_seconds: 60, ack: [held.receipt] });
  expect(settled.body).toEqual({ deliveries: [], settled: { done: [held.receipt], gone: [] } });
  expect((await request(`${app.url}/api/v1/agent/me`, agent.token)).body).toMatchObject({ pending: 1, paused: true });
  const activity = await operator.api('GET', `/api/v1/agents/activity?agent_ids=${agent.id}`);
  expect(activity.body.items[0]).toMatchObject({ paused: true, waiting_since: expect.any(String) });

  const resumed = agent.claim({ wait_seconds: 20 });
  expect(await weirJson(app, 'agent', 'resume', agent.id)).toMatchObject({ paused: false, paused_at: null });
  expect(await resumed).toHaveLength(1);
  expect(await weirJson(app, 'agent', 'pause', agent.id)).toMatchObject({ paused: true });
});

test('a paused agent does not have the condition pending, and has the condition paused after a day', async () => {
  const { webhook, agent } = await subscribed(app);
  const kinds = async () => {
    const { items } = (await operator.api('GET', '/api/v1/issues?state=open')).body;
    return items
      .filter((one: { subject: { id: string } }) => one.subject.id === agent.id)
      .map((one: { kind: string }) => one.kind);
  };
  await send(webhook);
  await letPass(app.database, 3_600);
  expect(await kinds()).toEqual(['pending']);
  await operator.api('PATCH', `/api/v1/agents/${agent.id}`, { paused: true });
  expect(await kinds()).toEqual([]);
  await app.sql(`update agents set paused_at = now() - interval '25 hours' where id = $1`, agent.id);
  expect(await kinds()).toEqual(['paused']);
});

test.each([
  ['by its list of webhooks', (agentId: string) => agentsOf(app).update(agentId, { webhook_ids: [] })],
  [
    'by the list of agents of the webhook',
    (_: string, webhookId: string) => app.webhooks.update(webhookId, { agent_ids: [] }),
  ],
])('unsubscribed %s: pending deliveries stay claimable, new events are not delivered', async (_, unsubscribe) => {
  const { webhook, agent } = await subscribed(app);
  const waiting = [await send(webhook), await send(webhook)];
  const leased = await agent.claimOne();
  await unsubscribe(agent.id, webhook.id);
  await send(webhook);
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual(waiting.slice(1));
  await agent.nack([leased.receipt], { delay_seconds: 0 });
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual(waiting.slice(0, 1));
  expect(await agent.claim()).toEqual([]);
});

test('waiting deliveries are still judged by the filter, and a later subscription has its own filter', async () => {
  const { webhook, agent } = await subscribed(app);
  const agents = agentsOf(app);
  const sendBoth = async () => [await send(webhook, '{"ok":true}'), await send(webhook, '{"ok":false}')];
  const claimed = async () => (await agent.claim()).map(({ event }) => event.id);
  made(await agents.subscribe(agent.id, webhook.id, { filter: 'body.ok' }));
  const [wanted, unwanted] = await sendBoth();
  await agents.update(agent.id, { webhook_ids: [] });
  expect(await claimed()).toEqual([wanted]);

  await operator.api('POST', `/api/v1/events/${unwanted}/replay`, {
    agent_ids: [agent.id],
    beyond_subscriptions: true,
  });
  expect(await claimed()).toEqual([unwanted]);

  await agents.update(agent.id, { webhook_ids: [webhook.id] });
  const later = await sendBoth();
  await agents.update(agent.id, { webhook_ids: [] });
  expect(await claimed()).toEqual(later);
});
