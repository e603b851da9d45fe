/** The subscriptions of an agent on the pages: the list, the form of a filter, and the list of what it excluded. */
import { beforeAll, describe, expect, test } from 'vitest';
import { filterOfTypes, typesOfFilter } from '../../../server/pages/agents/subscriptions.ts';
import { addAgent, send, type TestAgent } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook({ name: 'orders' }));
const agent = shared(() => addAgent(app, [webhook]));

const get = (path: string) => operator.page(path);

async function post(path: string, fields: Record<string, string>) {
  const { status, location, text } = await operator.submit(path, fields);
  return { status, to: location ?? '', text };
}

const wasIn = (page: string) =>
  /name="was" value="([^"]+)"/
    .exec(page)![1]!
    .replaceAll('&quot;', '"')
    .replaceAll('&#39;', "'")
    .replaceAll('&gt;', '>')
    .replaceAll('&amp;', '&');
const subscription = () => `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`;
const setFilter = (filter: string | null) => operator.api('PUT', subscription(), { filter });

test('the list does not say that no delivery is pending while a filter is not applied yet', async () => {
  const agesOf = async () => /data-label="Oldest pending">(?:<span[^>]*>)?([^<]*)/.exec(await get('/agents'))![1];
  expect(await agesOf()).toBe('None');
  await setFilter('bytes > 1');
  expect(await agesOf()).toBe('–');
  await setFilter(null);
});

test('a revoked agent with undelivered events is shown, with the choice to move or dismiss them', async () => {
  const other = await app.addWebhook({ name: 'other' });
  const { id } = await addAgent(app, [other]);
  const { name } = (await operator.api('GET', `/api/v1/agents/${id}`)).body;
  await send(other);
  const { to } = await post(`/agents/${id}/revoke`, { confirmed: name });
  expect(to).toMatch(new RegExp(`^/agents/${id}\\?`));
  expect(await get(to)).toContain('Agent revoked, 1 undelivered');
});

test('a filter that another user has changed since is not overwritten unnoticed', async () => {
  const form = `/agents/${agent.id}/filter`;
  const fields = {
    webhook_id: webhook.id,
    filter: 'bytes > 1',
    was: wasIn(await get(`${form}?webhook_id=${webhook.id}`)),
  };
  await setFilter('bytes > 2');
  // Trying keeps the version of the form.
  expect(wasIn((await post(form, { ...fields, try: '1' })).text)).toBe(fields.was);
  const refused = await post(form, fields);
  expect(refused.status).toBe(412);
  expect(refused.text).toContain('Save again to overwrite that.');
  expect(refused.text).toContain('>bytes &gt; 1</textarea>');
  const { body } = await operator.api('GET', `/api/v1/agents/${agent.id}/webhooks`);
  expect(body.items).toEqual([{ webhook_id: webhook.id, name: 'orders', filter: 'bytes > 2', order_by: null }]);
  expect(await post(form, { ...fields, was: wasIn(refused.text) })).toMatchObject({ status: 303 });
  await setFilter(null);
});

test.each([
  [' ', 'Enter an expression or a key to try.'],
  ['body.typ == "paid" &&', /id="e-filter">Character \d+: /],
])('the filter %j cannot be tried, and the page says why and keeps it', async (filter, why) => {
  const refused = await post(`/agents/${agent.id}/filter`, { webhook_id: webhook.id, filter, try: '1' });
  expect([refused.status, refused.text]).toEqual([422, expect.stringMatching(why)]);
  expect(refused.text).toContain(`${filter.replaceAll('"', '&quot;').replaceAll('&&', '&amp;&amp;')}</textarea>`);
});

test('a filter is saved, shown on the page of the agent, and removed', async () => {
  const save = (filter: string) => post(`/agents/${agent.id}/filter`, { webhook_id: webhook.id, filter });
  const add = 'aria-label="Add filter of orders"';
  expect(await get(`/agents/${agent.id}`)).toContain(add);
  expect((await save('bytes > 7')).status).toBe(303);
  expect(await get(`/agents/${agent.id}`)).toContain('<code class="filter">bytes &gt; 7</code>');
  expect((await save('')).status).toBe(303);
  expect(await get(`/agents/${agent.id}`)).toContain(add);
});

test('the order of a subscription is tried on stored events, saved and shown; a form without the field keeps it', async () => {
  const ordered = await app.addWebhook({ name: 'ordered' });
  const { id } = await addAgent(app, [ordered]);
  await send(ordered, '{"customer":"Ada &amp; Co"}');
  const form = `/agents/${id}/filter`;
  const fields = { webhook_id: ordered.id, filter: '', order_by: '/customer' };
  expect((await post(form, { ...fields, try: '1' })).text).toContain('<code>Ada &amp;amp; Co</code>');
  const refused = await post(form, { ...fields, order_by: 'header:cookie' });
  expect([refused.status, refused.text]).toEqual([422, expect.stringContaining('such headers are never stored')]);
  expect((await post(form, fields)).status).toBe(303);
  expect((await post(form, { webhook_id: ordered.id, filter: '' })).status).toBe(303);
  expect(await get(`/agents/${id}`)).toContain('in the order of <code>/customer</code>');
  await send(ordered, '{"customer":1}');
  await send(ordered, '{"customer":1}');
  const { items } = (await operator.api('GET', `/api/v1/deliveries?agent_id=${id}&held=true`)).body;
  expect(items).toHaveLength(1);
  expect(await get(`/deliveries?agent_id=${id}&held=true`)).toContain(`/deliveries/${items[0].id}`);
  expect(await get(`/deliveries/${items[0].id}`)).toContain('another delivery with this key must be finished first');
});

test('filtered deliveries are replayed as a whole, and the replay is undone', async () => {
  await setFilter('bytes > 1000');
  const events = [await send(webhook), await send(webhook)];
  expect(await agent.claim()).toEqual([]);
  const list = `/deliveries?state=filtered&agent_id=${agent.id}`;
  const page = await get(list);
  expect(page).toContain('<span class="tag ">filtered</span>');
  expect(page).toContain('The filter does not exclude them again');
  expect(await get(`/deliveries?state=filtered&event_id=${events[0]}`)).not.toContain('Replay filtered deliveries');
  expect(await get('/deliveries?state=filtered')).toContain('choose it below');
  expect(await get('/deliveries?state=done')).not.toContain('Replay done deliveries');

  const replay = { state: 'filtered', agent_id: agent.id };
  const { status, to } = await post('/deliveries/replay', replay);
  expect([status, to]).toEqual([
    303,
    expect.stringMatching(/state=filtered&count=2&action=.*notice=many-replayed&proof=[\w.-]+$/),
  ]);
  const after = await get(to);
  expect(after).toContain('2 deliveries are pending again.');
  const action = /name="action_id" value="([^"]+)"/.exec(after)![1]!;
  const undone = await post('/deliveries/undo', { action_id: action, state: 'filtered' });
  expect(await get(undone.to)).toContain('2 deliveries are restored.');
  await post('/deliveries/replay', replay);
  expect((await agent.claim()).map(({ event }) => event.id).sort()).toEqual(events.sort());
});

test('boxes of the types of 7 days write the expression, and trying it counts the last 24 hours', async () => {
  const typed = await app.addWebhook({ name: 'typed' });
  const member = await addAgent(app, [typed]);
  await operator.api('PATCH', `/api/v1/webhooks/${typed.id}`, { event_type_from: 'json:/type' });
  for (const type of ['a', 'a', 'b "quoted"', 'c'])
    await operator.api('POST', `/api/v1/webhooks/${typed.id}/test`, { body: JSON.stringify({ type }) });
  const path = `/agents/${member.id}/filter`;
  const page = await get(`${path}?webhook_id=${typed.id}`);
  expect(page).toMatch(/value="a"> a <span class="muted">2</);
  const { text: written } = await operator.submit(path, [
    ['webhook_id', typed.id],
    ['write', '1'],
    ['type', 'a'],
    ['type', 'b "quoted"'],
  ]);
  expect(written).toContain('event_type in [&quot;a&quot;, &quot;b \\&quot;quoted\\&quot;&quot;]</textarea>');
  expect([...written.matchAll(/name="type" value="([^"]*)" checked/g)].map(([, type]) => type)).toHaveLength(2);
  const tried = await post(path, { webhook_id: typed.id, filter: 'event_type in ["a", "b \\"quoted\\""]', try: '1' });
  expect(tried.text).toContain('<b>3 of 4</b> events of the last 24 hours would have been delivered.');
});

test.each([[[]], [['a']], [['a","b', 'ü \\ "']]])('the types %j are found again in their expression', (types) => {
  expect(typesOfFilter(filterOfTypes(types))).toEqual(types);
});

test('another expression has no types that boxes could show', () => {
  expect(typesOfFilter('event_type in ["a"] && bytes > 1')).toEqual([]);
});

describe('an agent of 210 webhooks', () => {
  let wide: TestAgent;
  let ids: string[];
  beforeAll(async () => {
    wide = await addAgent(app, []);
    const added = await app.sql<{ id: string }>(
      `insert into webhooks (id, name) select gen_random_uuid(), 'one of 210' from generate_series(1, 210) returning id`,
    );
    ids = added.map(({ id }) => id).sort();
    await app.sql(
      `insert into subscriptions (webhook_id, agent_id, filter)
             select id, $2, case when id = $3 then 'bytes > 7' end from unnest($1::uuid[]) id`,
      `{${ids}}`,
      wide.id,
      ids.at(-1)!,
    );
  });
  const linksIn = (html: string) => [...html.matchAll(/href="\/webhooks\/([^"]+)"/g)].map(([, id]) => id);

  test('shows 50 of them on its page, those with a filter first, and leads to the list', async () => {
    const page = await get(`/agents/${wide.id}`);
    const shown = page.split('id="webhooks"')[1]!.split('</section>')[0]!;
    expect(linksIn(shown)).toEqual([ids.at(-1), ...ids.slice(0, 49)]);
    expect(shown).toContain(`<a href="/agents/${wide.id}/webhooks">160 more</a>`);
  });

  test('has a list of them in pages, and by filter', async () => {
    const path = `/agents/${wide.id}/webhooks`;
    const page = await get(path);
    expect(linksIn(page)).toEqual(ids.slice(0, 50));
    expect(page).toContain('210 webhooks, 1 with a filter.');
    const next = /href="([^"]+)" rel="next"/.exec(page)![1]!.replaceAll('&amp;', '&');
    expect(linksIn(await get(next))).toEqual(ids.slice(50, 100));
    expect(linksIn(await get(`${path}?filtered=true`))).toEqual([ids.at(-1)]);
    expect(await get(`${path}?webhook_id=nowhere`)).toContain('No webhook has “nowhere” in its name.');
  });

  test('keeps them when its form is saved, which does not list them', async () => {
    const form = await get(`/agents/${wide.id}/edit`);
    expect(form).not.toContain('name="webhook_ids"');
    const fields = { name: 'renamed', max_leased: '', was: wasIn(form), keep_webhooks: 'true' };
    expect(await post(`/agents/${wide.id}/edit`, fields)).toMatchObject({ status: 303 });
    const { body } = await operator.api('GET', `/api/v1/agents/${wide.id}`);
    expect(body).toMatchObject({ name: 'renamed', webhooks: 210, filters: 1 });
  });
});

test('the list of webhooks of an agent adds one by name, and ends one', async () => {
  const small = await addAgent(app, []);
  const path = `/agents/${small.id}/webhooks`;
  const stored = async () => (await operator.api('GET', `/api/v1${path}`)).body.items;
  const refused = await post(path, { add: 'nowhere' });
  expect([refused.status, refused.text]).toEqual([
    422,
    expect.stringContaining('No webhook has “nowhere” in its name.'),
  ]);
  expect((await post(path, { add: webhook.id })).to).toContain(`${path}?webhook_id=${webhook.id}`);
  expect(await stored()).toEqual([{ webhook_id: webhook.id, name: 'orders', filter: null, order_by: null }]);
  expect(await get(path)).toContain(`name="end" value="${webhook.id}"`);
  expect(await post(path, { end: webhook.id })).toMatchObject({ status: 303 });
  expect(await stored()).toEqual([]);
});
