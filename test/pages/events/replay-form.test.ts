/** The form that replays many events: the types that it offers. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook({ name: 'Shop', event_type_from: 'header:x-kind' }));
const agent = shared(() => addAgent(app, [webhook]));
beforeAll(async () => {
  for (const kind of ['order.paid', 'order.paid', 'order.sent', ''])
    await fetch(webhook.url, signedRequest({ secret: webhook.secret, headers: kind === '' ? {} : { 'x-kind': kind } }));
});

const open = async (query: string) => (await operator.browse('GET', `/events/replay${query}`)).text;
/** Each choice: its value, whether it is chosen, and its text. */
const choices = (page: string) =>
  [...page.matchAll(/type="radio" name="type" value="([^"]*)"( checked)?> ([^<]*)<(?:span[^>]*>([\d,]*))?/g)].map(
    ([, value, checked, label, events = '']) => [value, checked !== undefined, `${label!.trim()} ${events}`.trim()],
  );

test('the types of the webhook have their numbers, and the chosen one is counted', async () => {
  const page = await open(`?webhook_id=${webhook.id}`);
  expect(choices(page)).toEqual([
    ['', true, 'All types'],
    ['order.paid', false, 'order.paid 2'],
    ['order.sent', false, 'order.sent 1'],
  ]);
  expect(page).toContain('<b>4 events</b> with these filters');
  const chosen = await open(`?webhook_id=${webhook.id}&type=order.paid`);
  expect(choices(chosen)).toContainEqual(['order.paid', true, 'order.paid 2']);
  expect(chosen).toContain('<b>2 events</b> with these filters');
  // Once: as the choice, and not also as a hidden field.
  expect(chosen.match(/name="type"/g)).toHaveLength(3);
});

test('a type that no event has is still the chosen one', async () => {
  expect(choices(await open(`?webhook_id=${webhook.id}&type=gone`))).toContainEqual(['gone', true, 'gone']);
});

test('without a webhook the form has no list, and the type stays a filter', async () => {
  const page = await open('?type=order.paid');
  expect(choices(page)).toEqual([]);
  expect(page).toContain('<input type="hidden" name="type" value="order.paid">');
});

test('the chosen type is replayed', async () => {
  const { location } = await operator.submit('/events/replay', { webhook_id: webhook.id, type: 'order.sent' });
  const job = (await operator.api('GET', `/api/v1${location!.split('?')[0]!.replace('/events/replays', '/jobs')}`))
    .body;
  expect(job.filter).toEqual({ webhook_id: webhook.id, type: 'order.sent' });
});

test('a replay that reaches no agent says so before it is started', async () => {
  const stranger = await addAgent(app);
  const { cookie } = operator;
  const { csrf_token: csrf } = (await operator.browse('GET', '/api/v1/account')).body;
  const previewOf = async (agentId: string) => {
    const body = new URLSearchParams({ csrf, webhook_id: webhook.id, agent_ids: agentId, preview: 'true' });
    const headers = { cookie, origin: app.url };
    return (await fetch(`${app.url}/events/replay`, { method: 'POST', body, headers })).text();
  };
  const warning = 'No agent gets these events, because none is subscribed to their webhooks.';
  expect(await previewOf(stranger.id)).toContain(warning);
  expect(await previewOf(agent.id)).not.toContain(warning);
});
