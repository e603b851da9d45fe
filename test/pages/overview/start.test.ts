/** The checklist of first steps, from an empty installation to the first acknowledged delivery. */
import { expect, test } from 'vitest';
import { createStart } from '../../../server/pages/overview/overview.ts';
import { readFirstSteps } from '../../../server/store/queries/start.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const administrator = shared(() => addPerson(app, 'administrator'));

const get = async (path: string, person = administrator) =>
  (await fetch(app.url + path, { headers: { cookie: person.cookie } })).text();
const next = async () => /<li class="next">.*?<strong>([^<]*)/s.exec(await get('/'))?.[1];

test('each step follows the one before it, and the checklist ends with the last', async () => {
  const overview = await get('/');
  expect(overview).toContain('<section class="card start"');
  expect(overview).toContain('(4 steps left)');
  expect(overview).toContain('hx-select-oob="#start"');
  expect(await next()).toBe('Create a webhook');
  const webhook = await app.addWebhook();
  expect(await next()).toBe('Waiting for your first event…');
  expect(await get('/')).toContain(`href="/webhooks/${webhook.id}"`);
  await send(webhook);
  expect(await next()).toBe('Create an agent');
  const [, form] = /href="(\/agents\/new[^"]*)"/.exec(await get('/'))!;
  expect(await get(form!)).toContain(`name="webhook_ids" value="${webhook.id}" checked`);
  const agent = await addAgent(app, [webhook]);
  expect(await next()).toBe('Waiting for the first acknowledged delivery…');
  expect(await get('/')).toContain(`href="/agents/${agent.id}"`);
  await send(webhook);
  expect(await get('/')).toMatch(/Add a colleague<\/strong> <span class="muted">optional/);

  const viewer = await addPerson(app, 'viewer');
  expect(await get('/', viewer)).not.toContain('id="start"');
  expect((await readFirstSteps(app.database)).colleague).toBe(true);

  const { receipt } = await agent.claimOne();
  await agent.ack([receipt]);
  const done = await get('/');
  expect(done).not.toContain('card start');
});

test('once all steps are done, they are not read again', async () => {
  const start = createStart(app.database);
  expect(await start()).toBeNull();
  await app.cutOff();
  expect(await start().finally(() => app.restore())).toBeNull();
});
