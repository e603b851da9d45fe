/** The checklist of first steps, from an empty installation to the first acknowledged delivery, and the overview when parts of it cannot be read. */
import { expect, test } from 'vitest';
import { createStart } from '../../../server/pages/overview/overview.ts';
import { readFirstSteps } from '../../../server/store/queries/start.ts';
import { addHistory } from '../../../server/store/queries/webhooks/history.ts';
import { addAgent, send, startAgentApp } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(startAgentApp);
const administrator = shared(() => addPerson(app, 'administrator'));

const get = (path: string, person = administrator) => person.page(path);
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

const unread = (page: string) => [...page.matchAll(/The ([a-z ]+) could not be read\./g)].map(([, part]) => part);

test('the parts that do not need what cannot be read are shown', async () => {
  await send(await app.addWebhook({ name: 'Shop orders' }));
  expect(unread(await get('/'))).toEqual([]);
  await app.database.transaction(async (query) => {
    await query({ text: 'lock table deliveries_live in access exclusive mode' });
    const page = await get('/');
    expect(unread(page)).toEqual([]);
    expect(page).toContain('Shop orders</a>');
    expect(page).not.toContain('There is no webhook yet');
  });
});

test('the overview is good without an issue, and not while many requests are not accepted', async () => {
  const installation = await ofTest(startAgentApp());
  const [viewer, operator] = await Promise.all([
    addPerson(installation, 'viewer'),
    addPerson(installation, 'operator'),
  ]);
  const verdict = async (person = viewer) =>
    /<p class="verdict[^>]*>(.*?)<\/p>/s.exec(await person.page('/'))?.[1]?.replace(/<[^>]*>/g, '');
  expect(await verdict()).toBe('No webhook yet: an operator can create one');
  expect(await verdict(operator)).toBe('No webhook yet: create one to receive events');
  const { id: webhookId } = await installation.addWebhook();
  const count = (counts: object) => addHistory(installation.database, [{ webhookId, minuteMs: Date.now(), ...counts }]);
  await count({ accepted: 95, limited: 5 });
  expect(await verdict()).toBe('All good: 95 events in the last 24 hours, 5 requests not accepted');
  await count({ rejected: 1 });
  expect(await verdict()).toBe(
    '5.9 % of the requests in the last 24 hours were not accepted: 1 rejected, 5 rate limited, 0 refused',
  );
  await count({ too_large: 2 });
  expect(await verdict()).toMatch(/^7\.8 % .+ 1 rejected, 5 rate limited, 2 refused$/);
});

// The last one: it ends the connections of all.
test('once all steps are done, they are not read again', async () => {
  const start = createStart(app.database);
  expect(await start()).toBeNull();
  await app.cutOff();
  expect(await start().finally(() => app.restore())).toBeNull();
});
