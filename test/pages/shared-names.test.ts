/** Webhooks with the same name, in lists and selectors. */
import { beforeAll, expect, test } from 'vitest';
import { send, startAgentApp } from '../helpers/agents.ts';
import type { TestWebhook } from '../helpers/app.ts';
import { addPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
let twins: TestWebhook[];
beforeAll(async () => {
  twins = [await app.addWebhook({ name: 'Twin' }), await app.addWebhook({ name: 'Twin' })];
  const alone = await app.addWebhook({ name: 'Alone' });
  for (const { secret, ...webhook } of [...twins, alone]) {
    await send({ secret, ...webhook });
    const refused = signedRequest({ secret: 'of another sender' });
    expect((await fetch(webhook.url, refused)).status).toBe(403);
  }
  await until(async () => (await operator.api('GET', '/api/v1/rejections')).body.items.length === 3);
});

const get = async (path: string) => (await fetch(app.url + path, { headers: { cookie: operator.cookie } })).text();
const labelOf = ({ id }: TestWebhook) => `Twin …${id.slice(-8)}`;

test.each(['/', '/events', '/deliveries', '/rejections', '/agents/new', '/search?q=Twin'])(
  '%s tells them apart by their ids, and shows no id for a name that is alone',
  async (path) => {
    const page = await get(path);
    for (const twin of twins) expect(page).toContain(labelOf(twin));
    expect(page).not.toMatch(/>\s*Twin\s*</);
    expect(page).not.toContain('Alone …');
  },
);

test('the label of one selects it where a name is typed, and a message offers the labels', async () => {
  const [first] = twins as [TestWebhook];
  const selected = await get(`/events?webhook_id=${encodeURIComponent(labelOf(first))}`);
  expect(selected).toContain(`<option value="${first.id}" selected>${labelOf(first)}</option>`);
  const message = /2 webhooks have “twin” in their name\. Type one of these: (.*), (.*)\.</.exec(
    await get('/events?webhook_id=twin'),
  );
  expect(message?.slice(1).sort()).toEqual(twins.map(labelOf).sort());
});
