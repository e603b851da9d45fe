/** What an agent receives of a webhook after its subscription ended. */
import { expect, test } from 'vitest';
import { addAgent, agentsOf, send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);

test.each([
  ['by its list of webhooks', (agentId: string) => agentsOf(app).update(agentId, { webhook_ids: [] })],
  [
    'by the list of agents of the webhook',
    (_: string, webhookId: string) => app.webhooks.update(webhookId, { agent_ids: [] }),
  ],
])('%s: pending deliveries stay claimable, new events are not delivered', async (_, unsubscribe) => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const waiting = [await send(webhook), await send(webhook)];
  const leased = await agent.claimOne();
  await unsubscribe(agent.id, webhook.id);
  await send(webhook);
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual(waiting.slice(1));
  await agent.nack([leased.receipt], { delay_seconds: 0 });
  expect((await agent.claim()).map(({ event }) => event.id)).toEqual(waiting.slice(0, 1));
  expect(await agent.claim()).toEqual([]);
});

test('an agent that is subscribed again gets new events once each', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await agentsOf(app).update(agent.id, { webhook_ids: [] });
  await agentsOf(app).update(agent.id, { webhook_ids: [webhook.id] });
  const event = await send(webhook);
  expect((await agent.claim()).map((delivery) => delivery.event.id)).toEqual([event]);
});

test('waiting deliveries are still judged by the filter, and a later subscription has its own filter', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const agents = agentsOf(app);
  const sendBoth = async () => [await send(webhook, '{"ok":true}'), await send(webhook, '{"ok":false}')];
  const claimed = async () => (await agent.claim()).map(({ event }) => event.id);
  made(await agents.subscribe(agent.id, webhook.id, { filter: 'body.ok' }));
  const [wanted, unwanted] = await sendBoth();
  await agents.update(agent.id, { webhook_ids: [] });
  expect(await claimed()).toEqual([wanted]);

  const operator = await addPerson(app, 'operator');
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
