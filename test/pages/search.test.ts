/** What people find: by the search of the page frame, by the filters of the events, and among webhooks with one name. */
import { beforeAll, describe, expect, test } from 'vitest';
import { tidyAddress } from '../../server/pages/forms/form.ts';
import { send } from '../helpers/agents.ts';
import type { TestWebhook } from '../helpers/app.ts';
import { startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { signedRequest } from '../helpers/requests.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const app = shared(startPagesApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook({ name: 'Shop orders', event_type_from: 'json:/type' }));
let agent: { id: string };
let event: string;
let delivery: string;
beforeAll(async () => {
  const given = { name: 'orders-sync', webhook_ids: [webhook.id] };
  agent = (await operator.api('POST', '/api/v1/agents', given)).body;
  event = await send(webhook, '{"type":"order.created"}');
  delivery = (await viewer.api('GET', '/api/v1/deliveries')).body.items[0].id;
});

async function open(path: string) {
  const answer = await fetch(app.url + path, { headers: { cookie: viewer.cookie }, redirect: 'manual' });
  return { status: answer.status, location: answer.headers.get('location'), text: await answer.text() };
}

const search = (q: string) => open(`/search?q=${encodeURIComponent(q)}`);

describe('the search', () => {
  test('leads to what has the id', async () => {
    for (const [folder, id] of [
      ['events', event],
      ['deliveries', delivery],
      ['webhooks', webhook.id],
      ['agents', agent.id],
    ] as const)
      expect(await search(` ${id.toUpperCase()} `)).toMatchObject({ status: 303, location: `/${folder}/${id}` });
  });

  test('finds webhooks and agents by a part of their name', async () => {
    const { text } = await search('ORDERS');
    expect(text).toContain(`<a href="/webhooks/${webhook.id}">Shop orders</a>`);
    expect(text).toContain(`<a href="/agents/${agent.id}">orders-sync</a>`);
  });

  test('finds events by their type, with the link to all of them', async () => {
    const { text } = await search('order.created');
    expect(text).toContain('Events of this type');
    expect(text).toContain(`href="/events/${event}"`);
    expect(text).toContain('href="/events?type=order.created"');
  });

  test('finds an event by the beginning of its id, of 8 characters and more', async () => {
    for (const length of [8, 12, 18, 35]) {
      const { text } = await search(event.slice(0, length));
      expect([length, text.includes(`href="/events/${event}"`)]).toEqual([length, true]);
    }
    expect((await search(event.slice(0, 7))).text).not.toContain('/events/');
    expect((await search('ffffffff')).status).toBe(200);
  });

  test('offers the texts of events when nothing has the name', async () => {
    const { status, text } = await search('no such & thing');
    expect(status).toBe(200);
    expect(text).toContain('No webhook, agent, type, id or body of the last hour matches');
    expect(text).toContain('href="/events?q=no+such+%26+thing"');
    expect(text).toContain('href="/events?header=no+such+%26+thing"');
    expect((await search('01a1ffb6-1f30-7b8e-9d54-2c6a91e07b33')).text).toContain('No webhook, agent');
    expect((await open('/search')).status).toBe(200);
  });
});

describe('the list of events', () => {
  test('shows type, webhook and the states of the deliveries first', async () => {
    const { text } = await open('/events');
    const row = /<tbody id="event-rows">([\s\S]*?)<\/tbody>/.exec(text)![1]!;
    const cells = row
      .split('<td')
      .slice(1)
      .map((cell) =>
        cell
          .replace(/^[^>]*>/, '')
          .replace(/<[^>]+>/g, '')
          .trim(),
      );
    expect(cells.slice(0, 3)).toEqual(['order.created', 'Shop orders', 'pending']);
  });

  test('counts deliveries by each of their states', async () => {
    const states = ['pending', 'leased', 'done', 'dead', 'dismissed', 'filtered'];
    const set = (state: string) =>
      app.sql(
        `update deliveries set state = $2, finished_at = case when $2 in ('done', 'dead', 'dismissed', 'filtered') then now() end
               where id = $1`,
        delivery,
        state,
      );
    for (const state of states) {
      await set(state);
      const { body } = await viewer.api('GET', `/api/v1/events/deliveries?event_ids=${event.toUpperCase()}`);
      const counts = Object.fromEntries(states.map((one) => [one, one === state ? 1 : 0]));
      expect(body.items).toEqual([{ event_id: event, ...counts }]);
      expect((await open('/events')).text).toMatch(
        new RegExp(`<span class="tag \\w*">${state === 'leased' ? 'in progress' : state}</span>`),
      );
    }
    await set('pending');
  });

  test('filters by a click on a value, and by ranges of time', async () => {
    const { text } = await open('/events?type=order.created');
    expect(text).toContain(`href="/events?type=order.created&amp;webhook_id=${webhook.id}"`);
    expect(text).toMatch(/<button type="submit" form="filters" name="range" value="\S+Z\/" [^>]*>Last hour/);
    expect((await open('/events?from=2026-01-01T00:00:00Z')).text).not.toContain('Last hour');
    const { status, location } = await open('/events?type=&q=typed&range=2026-11-20T00:00:00Z/2026-11-21T00:00:00Z');
    const tidied = '/events?q=typed&range=2026-11-20T00:00:00Z/2026-11-21T00:00:00Z';
    expect([status, location]).toEqual([303, tidied]);
    const address = '/events?q=typed&from=2026-11-20T00%3A00%3A00Z&to=2026-11-21T00%3A00%3A00Z';
    expect((await open(tidied)).location).toBe(address);
    expect((await open(`/events/${event}`)).text).toContain('href="/events?type=order.created"');
  });

  test('shows how many match, and exports them by the same filters', async () => {
    const { text } = await open('/events?type=order.created');
    expect(text).toContain('<span>1 event</span>');
    expect(text).toContain('href="/api/v1/events/export?type=order.created&amp;format=csv"');
  });

  test('reports an invalid value beside its filter', async () => {
    expect((await open('/events?source=nowhere')).text).toContain('id="e-source"');
  });

  test('without JavaScript has no empty parameters in its address', async () => {
    const { status, location } = await open('/events?webhook_id=&type=&q=a%3D&from=');
    expect([status, location]).toEqual([303, '/events?q=a%3D']);
    expect((await open('/events?webhook_id=&q=')).location).toBe('/events');
  });
});

test.each([
  ['a=1&b=2', null],
  ['a=b=', null],
  ['', null],
  ['a=', '/p'],
  ['a=&b=&c=3&d=', '/p?c=3'],
])('an address with %o is tidied to %o', (query, address) => {
  expect(tidyAddress({ path: '/p', query })).toBe(address);
});

test('a type is suggested, also by what several begin with, and found by a prefix', async () => {
  const other = await app.addWebhook({ event_type_from: 'json:/type' });
  const [paid, sent] = [await send(other, '{"type":"invoice.paid"}'), await send(other, '{"type":"invoice.sent"}')];
  await send(other, '{"type":"invoicing"}');
  for (const query of ['', `?webhook_id=${other.id}`]) {
    const [, list] = /<datalist id="l-type">(.*?)<\/datalist>/.exec((await open(`/events${query}`)).text)!;
    const options = [...list!.matchAll(/value="([^"]*)"/g)].map(([, value]) => value);
    expect(options.filter((value) => value!.startsWith('invoic'))).toEqual([
      'invoice.*',
      'invoice.paid',
      'invoice.sent',
      'invoicing',
    ]);
  }
  const { text } = await open('/events?type=invoice.*');
  const rows = [...text.matchAll(/href="\/events\/([0-9a-f-]{36})[?"]/g)].map(([, id]) => id);
  expect(rows).toEqual([sent, paid]);
});

test('the search finds text in the bodies of the last hour', async () => {
  const found = await search('"order.created"}');
  expect(found.text).toContain('Events of the last hour with this text');
  expect(found.text).toContain(`/events/${event}`);
});

describe('webhooks with one name', () => {
  let twins: TestWebhook[];
  beforeAll(async () => {
    twins = [await app.addWebhook({ name: 'Twin' }), await app.addWebhook({ name: 'Twin' })];
    const alone = await app.addWebhook({ name: 'Alone' });
    for (const { secret, ...webhook } of [...twins, alone]) {
      await send({ secret, ...webhook });
      const refused = signedRequest({ secret: 'of another sender' });
      expect((await fetch(webhook.url, refused)).status).toBe(403);
    }
    await until(async () => (await viewer.api('GET', '/api/v1/rejections')).body.items.length === 3);
  });

  const labelOf = ({ id }: TestWebhook) => `Twin …${id.slice(-8)}`;

  test.each(['/', '/events', '/deliveries', '/rejections', '/agents/new', '/search?q=Twin'])(
    '%s tells them apart by their ids, and shows no id for a name that is alone',
    async (path) => {
      const page = await operator.page(path);
      for (const twin of twins) expect(page).toContain(labelOf(twin));
      expect(page).not.toMatch(/>\s*Twin\s*</);
      expect(page).not.toContain('Alone …');
    },
  );

  test('the label of one selects it where a name is typed, and a message offers the labels', async () => {
    const [first] = twins as [TestWebhook];
    const selected = await viewer.page(`/events?webhook_id=${encodeURIComponent(labelOf(first))}`);
    expect(selected).toContain(`<option value="${first.id}" selected>${labelOf(first)}</option>`);
    const message = /2 webhooks have “twin” in their name\. Type one of these: (.*), (.*)\.</.exec(
      await viewer.page('/events?webhook_id=twin'),
    );
    expect(message?.slice(1).sort()).toEqual(twins.map(labelOf).sort());
  });
});
