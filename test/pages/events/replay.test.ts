/** The form that replays many events with the types that it offers, and whom a replay from the page of an event reaches. */
import { beforeAll, expect, test } from 'vitest';
import { addAgent, agentsOf, send, type TestAgent } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { signedRequest } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

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

let event: string;
let agents: Record<'passing' | 'picky' | 'stranger', TestAgent>;
beforeAll(async () => {
  const webhook = await app.addWebhook();
  agents = {
    passing: await addAgent(app, [webhook]),
    picky: await addAgent(app, [webhook]),
    stranger: await addAgent(app),
  };
  made(await agentsOf(app).subscribe(agents.picky.id, webhook.id, { filter: 'body.kind == "order"' }));
  event = await send(webhook, '{"kind":"other"}');
});

const replay = (fields: Record<string, string>) => operator.submit(`/events/${event}/replay`, fields);

async function pageFor(role: 'viewer' | 'operator'): Promise<string> {
  return (await addPerson(app, role)).page(`/events/${event}`);
}

test('the agents that would not get the event are in a group of their own, and a replay to one of them ignores why', async () => {
  // The page waits a limited time for the filters, whose threads start with the first one.
  const page = await until(async () => {
    const shown = await pageFor('operator');
    return shown.includes('name="beyond"') ? null : shown;
  });
  expect([...page.matchAll(/<li class="(?:good)?"><b>([^<]*)</g)].map(([, step]) => step)).toContain('Received');
  const [, group] = /<optgroup label="Beyond subscriptions and filters">(.*)<\/optgroup>/.exec(page)!;
  const optionsOf = (html: string) =>
    [...html.matchAll(/<option value="([^"]+)">[^<(]*(?:\(([^)]*)\))?<\/option>/g)].map(([, value, note]) => [
      value,
      note,
    ]);
  const beyond = [
    [`beyond:${agents.picky.id}`, 'its filter excludes it'],
    [`beyond:${agents.stranger.id}`, 'not subscribed'],
  ];
  expect(optionsOf(group!)).toEqual(expect.arrayContaining(beyond));
  expect(optionsOf(page.replace(group!, ''))).toEqual([[agents.passing.id, undefined]]);
  for (const [agent_id] of beyond)
    expect(await operator.page((await replay({ agent_id: agent_id! })).location!)).toContain(
      'Replayed: pending again.',
    );
  expect((await replay({ agent_id: agents.stranger.id })).status).toBe(422);
});

test('a viewer cannot replay', async () => {
  expect(await pageFor('viewer')).not.toContain('/replay"');
});
