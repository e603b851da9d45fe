/** Ids that an administrator gives new webhooks and agents. */
import { randomUUID } from 'node:crypto';
import { expect, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson, lastAudit } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const administrator = shared(() => addPerson(app, 'administrator'));
const operator = shared(() => addPerson(app, 'operator'));
const kinds = ['webhooks', 'agents'] as const;
const create = (kind: string, body: object) =>
  administrator.api('POST', `/api/v1/${kind}`, { name: randomUUID(), ...body });

test.each(kinds)('%s: a new one has the given id, which no other can have', async (kind) => {
  const id = randomUUID();
  const made = await create(kind, { id: id.toUpperCase() });
  expect([made.status, made.body.id]).toEqual([201, id]);
  expect((await lastAudit(app)).action).toMatch(/\.create$/);
  const taken = await create(kind, { id });
  expect([taken.status, taken.body.code]).toEqual([409, 'id_taken']);
});

test.each(kinds)('%s: two at once with one id are one success and one 409', async (kind) => {
  const id = randomUUID();
  const answers = await Promise.all([create(kind, { id }), create(kind, { id })]);
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
});

test.each(kinds)('%s: only version 4, and only administrators', async (kind) => {
  const refused = await create(kind, { id: '01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a' });
  expect([refused.status, refused.body.errors]).toEqual([422, [{ pointer: '/id', detail: expect.any(String) }]]);
  const body = { name: 'of an operator', id: randomUUID() };
  const { status, body: problem } = await operator.api('POST', `/api/v1/${kind}`, body);
  expect([status, problem.code]).toEqual([403, 'forbidden']);
});

test('a deleted webhook is restored with its events and without its subscriptions and secret', async () => {
  const webhook = await app.addWebhook({ rate_limit_max: 7 });
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook);
  await administrator.api('DELETE', `/api/v1/webhooks/${webhook.id}`);
  expect((await fetch(webhook.url, { method: 'POST', body: '{}' })).status).toBe(404);
  const restored = await create('webhooks', { id: webhook.id, name: 'again', secret: webhook.secret });
  expect(restored.body).toMatchObject({ id: webhook.id, name: 'again', agent_ids: [], rate_limit_max: null });
  const { action, before, after } = await lastAudit(app);
  expect([action, before, after]).toEqual(['webhook.restore', null, expect.objectContaining({ id: webhook.id })]);
  await send(webhook);
  const { body } = await administrator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`);
  expect(body.items).toHaveLength(2);
  // The delivery of before the deletion waits; that of after it does not exist.
  expect((await agent.claim()).map((one) => one.event.id)).toEqual([event]);
});

test('a revoked agent is restored with a new credential alone, and gets the deliveries that wait for it', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook);
  await administrator.api('DELETE', `/api/v1/agents/${agent.id}`);
  const restored = await create('agents', { id: agent.id });
  expect([restored.status, restored.body.webhooks, restored.body.revoked]).toEqual([201, 0, false]);
  expect((await lastAudit(app)).action).toBe('agent.restore');
  expect((await agent.post('claim', {})).status).toBe(401);
  agent.token = restored.body.credential;
  expect((await agent.claim()).map((one) => one.event.id)).toEqual([event]);
});

test('a revoked agent does not take the name of an active one', async () => {
  const agent = await addAgent(app);
  await administrator.api('DELETE', `/api/v1/agents/${agent.id}`);
  const { body } = await create('agents', {});
  const refused = await create('agents', { id: agent.id, name: body.name });
  expect([refused.status, refused.body.code]).toEqual([409, 'name_taken']);
});

test('a removed temporary agent is not restored: its deliveries are about to be deleted', async () => {
  const { body } = await create('agents', { temporary: true });
  await administrator.api('DELETE', `/api/v1/agents/${body.id}`);
  expect((await create('agents', { id: body.id })).body.code).toBe('id_taken');
});
