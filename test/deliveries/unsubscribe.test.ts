/** What an agent receives of a webhook after its subscription ended. */
import { afterAll, beforeAll, expect, test } from 'vitest';
import { addAgent, agentsOf, send, startAgentApp } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';

let app: TestApp;
beforeAll(async () => {
  app = await startAgentApp();
});
afterAll(() => app.stop());

test.each([
  ['by the agent', (agentId: string, webhookId: string) => agentsOf(app).unsubscribe(agentId, [webhookId])],
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
  await agentsOf(app).unsubscribe(agent.id, [webhook.id]);
  await agentsOf(app).subscribe(agent.id, [webhook.id]);
  const event = await send(webhook);
  expect((await agent.claim()).map((delivery) => delivery.event.id)).toEqual([event]);
});
