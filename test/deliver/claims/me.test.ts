import { expect, test } from 'vitest';
import { addAgent, letPass, request, send, startAgentApp } from '../../helpers/agents.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);

test('GET /api/v1/agent/me counts pending deliveries and returns the age of the oldest', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
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
