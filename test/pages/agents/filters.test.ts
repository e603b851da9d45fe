/** The filter of a subscription on the pages: its form, and the list of what it excluded. */
import { expect, test } from 'vitest';
import { filterOfTypes, typesOfFilter } from '../../../server/pages/agents/filters.ts';
import { addAgent, send } from '../../helpers/agents.ts';
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
  const { body } = await operator.api('GET', `/api/v1/agents/${agent.id}`);
  expect(body.subscriptions).toEqual([{ webhook_id: webhook.id, filter: 'bytes > 2' }]);
  expect(await post(form, { ...fields, was: wasIn(refused.text) })).toMatchObject({ status: 303 });
  await setFilter(null);
});

test('an empty filter cannot be tried, and the page says so', async () => {
  const fields = { webhook_id: webhook.id, filter: ' ', try: '1' };
  const refused = await post(`/agents/${agent.id}/filter`, fields);
  expect(refused.status).toBe(422);
  expect(refused.text).toContain('Enter an expression to try.');
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

test('the page of an agent shows 100 of its subscriptions, those with a filter first', async () => {
  const wide = await addAgent(app, []);
  const added = await app.database.query<{ id: string }>({
    text: `insert into webhooks (id, name) select gen_random_uuid(), 'one of 110' from generate_series(1, 110) returning id`,
  });
  await app.database.query({
    text: `insert into subscriptions (webhook_id, agent_id, filter)
           select id, $2, case when id = $3 then 'bytes > 7' end from unnest($1::uuid[]) id`,
    values: [`{${added.map(({ id }) => id)}}`, wide.id, added.at(-1)!.id],
  });
  const page = await get(`/agents/${wide.id}`);
  expect(page).toContain('and 10 more');
  const links = page
    .split('Subscribed webhooks</dt>')[1]!
    .split('</dd>')[0]!
    .match(/href="\/webhooks\/[^"]+"/g)!;
  expect(links).toHaveLength(100);
  expect(links[0]).toContain(added.at(-1)!.id);
});
