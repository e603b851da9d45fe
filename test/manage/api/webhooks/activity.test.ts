import { randomUUID } from 'node:crypto';
import { beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestWebhook } from '../../../helpers/app.ts';
import { addPerson } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startTestApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const paths = ['', '/batch'];
/** By the rest of the path: the webhook that a request was sent to, and its ETag before. */
const sent = new Map<string, { webhook: TestWebhook; tag: string | null }>();
const tagOf = async ({ id }: TestWebhook) => (await viewer.api('GET', `/api/v1/webhooks/${id}`)).headers.get('etag');
beforeAll(async () => {
  // A last event is written within 5 s: all of them are sent first, and the tests then wait together.
  for (const path of paths) {
    const webhook = await app.addWebhook();
    const tag = await tagOf(webhook);
    expect((await send(webhook, webhook.secret, path)).status).toBe(202);
    sent.set(path, { webhook, tag });
  }
});

const PATH = '/api/v1/webhooks/activity';
const of = async (...ids: string[]) => (await viewer.api('GET', `${PATH}?webhook_ids=${ids.join(',')}`)).body.items;
const send = (webhook: TestWebhook, secret = webhook.secret, path = '') =>
  fetch(webhook.url + path, signedRequest({ secret, body: '{"a":1}' }));

test('a webhook without requests has no last event and no last rejection', async () => {
  const { id } = await app.addWebhook();
  expect(await of(id)).toEqual([
    { webhook_id: id, last_event_at: null, last_rejection_at: null, events_removed_before: null },
  ]);
});

test.each(paths)('a request to /in/{webhook_id}%s sets the last event and does not change the ETag', async (path) => {
  const { webhook, tag } = sent.get(path)!;
  await until(async () => (await of(webhook.id))[0].last_event_at !== null);
  const [{ last_event_at: at }] = await of(webhook.id);
  expect(Math.abs(Date.now() - Date.parse(at))).toBeLessThan(60_000);
  expect(await tagOf(webhook)).toBe(tag);
});

test('a refused signature sets the last rejection, not the last event', async () => {
  const webhook = await app.addWebhook();
  expect((await send(webhook, 'a wrong secret')).status).toBe(403);
  await until(async () => (await of(webhook.id))[0].last_rejection_at !== null);
  expect((await of(webhook.id))[0].last_event_at).toBeNull();
});

test.each(['?webhook_ids=', '?webhook_ids=somewhere', `?webhook_ids=${Array(201).fill(randomUUID()).join(',')}`])(
  'invalid ids are refused: %.30s',
  async (query) => {
    expect((await viewer.api('GET', PATH + query)).status).toBe(422);
  },
);
