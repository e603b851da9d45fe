/** The list of deliveries, whose rows are chosen by boxes, which work without JavaScript; one delivery; and the tables on the page of an agent. */
import { expect, test } from 'vitest';
import { Renderer } from '../../../server/pages/serve/answers.ts';
import { addAgent, send, storeEvents } from '../../helpers/agents.ts';
import { startPagesApp } from '../../helpers/browser.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startPagesApp({ DELIVERY_MAX_ATTEMPTS: 1 }));
const operator = shared(() => addPerson(app, 'operator'));
const viewer = shared(() => addPerson(app, 'viewer'));

const get = (path: string, person = operator) => person.page(path);

/** The page after a form of the list. */
async function post(path: string, fields: [string, string][]): Promise<string> {
  const { status, location } = await operator.submit(path, [['chosen', 'rows'], ...fields]);
  expect(status).toBe(303);
  return get(location!);
}

const boxes = (page: string) =>
  [...page.matchAll(/<input type="checkbox" name="id" value="([^"]+)"/g)].map(([, id]) => id!);

test('chosen rows are dismissed and replayed, others are not, and the list stays filtered', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  for (const reason of ['a', 'b', 'c']) {
    await send(webhook);
    await agent.nack([(await agent.claimOne()).receipt], { reason });
  }
  await send(webhook);
  const list = `/deliveries?webhook_id=${webhook.id}`;
  const page = await get(list);
  // The pending one has no box.
  const [one, two, three, ...more] = boxes(page) as [string, string, string];
  expect(more).toEqual([]);
  expect(page).toContain('formaction="/deliveries/dismiss" name="confirmed" value="yes">Dismiss now</button>');
  expect(boxes(await get(list, viewer))).toEqual([]);

  const scope: [string, string] = ['webhook_id', webhook.id];
  const dismissed = await post('/deliveries/dismiss', [scope, ['confirmed', 'yes'], ['id', one], ['id', two]]);
  expect(dismissed).toContain('2 dead letters are dismissed.');
  const replayed = await post('/deliveries/replay', [scope, ['id', two], ['id', three]]);
  expect(replayed).toContain('2 deliveries are pending again.');
  expect(boxes(replayed)).toEqual([one]);
});

test('the filters stay that the form of chosen rows has, also a reason and an event', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook);
  await agent.nack([(await agent.claimOne()).receipt], { reason: 'no such order' });
  const filters = { state: 'dead', held: 'false', reason: 'no such order', event_id: event };
  const page = await get(`/deliveries?${new URLSearchParams(filters)}`);
  expect(page).toContain(`name="event_id" type="text" value="${event}"`);
  const chosen = page.split('id="chosen"')[1]!.split('</form>')[0]!;
  const hidden = [...chosen.matchAll(/type="hidden" name="(\w+)" value="([^"]*)"/g)].map(([, name, value]) => [
    name,
    value,
  ]);
  expect(Object.fromEntries(hidden)).toMatchObject(filters);
  const { location } = await operator.submit('/deliveries/replay', [...Object.entries(filters), ['chosen', 'rows']]);
  expect(Object.fromEntries(new URL(location!, app.url).searchParams)).toMatchObject(filters);
});

test('a delivery that another one with its key holds is marked in the list and on the page of its agent', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await operator.api('PUT', `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`, { order_by: '/key' });
  for (let i = 0; i < 2; i++) await send(webhook, '{"key":"a"}');
  await agent.claim();
  const marks = (page: string) => page.match(/>held<\/span>/g)?.length;
  expect(marks(await get(`/deliveries?agent_id=${agent.id}`))).toBe(1);
  expect(marks(await get(`/agents/${agent.id}`))).toBe(1);
});

test('a list that its time limit ended says how far it got, continues by a link, and is refreshed less often', () => {
  const choices = { names: {}, complete: true };
  const page = { items: [], next_cursor: 'next', complete: false, searched_to: '2026-01-31T10:00:00.000Z' };
  const data = { filters: { webhook_id: 'one' }, errors: {}, agents: choices, webhooks: choices, may: () => true };
  const list = (searched: object) =>
    new Renderer().render('deliveries/list', { ...data, page: { ...page, ...searched } });
  expect(list({})).toMatch(
    /data-every="15".*Searched back to <time datetime="2026-01-31T10:00:00.000Z".*cursor=next" rel="next">Search further back/s,
  );
  expect(list({})).not.toContain('class="empty"');
  const whole = list({ next_cursor: undefined, searched_to: undefined });
  expect(whole).toContain('No matching deliveries');
  expect(whole).not.toContain('data-every');
});

test('the dead letters of an agent, or of one of its webhooks, are replayed by one button', async () => {
  const [one, other] = [await app.addWebhook(), await app.addWebhook()];
  const agent = await addAgent(app, [one, other]);
  for (const webhook of [one, one, other]) await send(webhook);
  const receipts = (await agent.claim()).map(({ receipt }) => receipt);
  await agent.nack(receipts, { reason: 'gave up' });
  const page = await get(`/agents/${agent.id}`);
  expect(page.split('id="s-dead"')[1]).toContain('gave up');
  expect(page).toContain('Replay 3 dead letters');
  const scope = { state: 'dead', agent_id: agent.id, webhook_id: one.id };
  expect(await get(`/deliveries?${new URLSearchParams(scope)}`)).toContain('Replay 2 dead letters');
  const { location } = await operator.submit('/deliveries/replay', scope);
  expect(await get(location!)).toContain('2 dead letters are pending again.');
  expect((await agent.claim()).map(({ event }) => event.webhook_id)).toEqual([one.id, one.id]);
});

test('of a revoked agent no replay is offered', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  for (let i = 0; i < 2; i++) await send(webhook);
  const [one, two] = await agent.claim();
  await agent.nack([one!.receipt, two!.receipt], {});
  await operator.api('POST', '/api/v1/deliveries/dismiss', { delivery_ids: [one!.id] });
  const offers = async (state: string, button: string) =>
    (await get(`/deliveries?state=${state}&agent_id=${agent.id}`)).includes(button);
  const offered = async () => [
    await offers('dead', 'Replay 1 dead letter'),
    await offers('dismissed', 'Replay dismissed deliveries'),
  ];
  expect(await offered()).toEqual([true, true]);
  await operator.api('DELETE', `/api/v1/agents/${agent.id}`);
  expect(await offered()).toEqual([false, false]);
});

test('without a chosen row nothing changes', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await agent.nack([(await agent.claimOne()).receipt], {});
  for (const action of ['replay', 'dismiss']) {
    const after = await post(`/deliveries/${action}`, [
      ['webhook_id', webhook.id],
      ['state', 'dead'],
    ]);
    expect(after).toContain('No delivery was chosen.');
    expect(boxes(after)).toHaveLength(1);
  }
});

test('a time range hides what is of all times: groups of reasons', async () => {
  expect(await get('/deliveries?state=dead')).toContain('Dead letters by reason');
  const page = await get('/deliveries?state=dead&from=2026-01-01T00:00:00');
  expect(page).not.toContain('Dead letters by reason');
  expect(page).toContain('name="from" type="datetime-local" value="2026-01-01T00:00:00"');
});

test.each([
  ['that failed shows', 'nack' as const, { reason: 'no such order' }, true],
  ['that succeeded does not show', 'ack' as const, {}, false],
])('a delivery %s the body of its event', async (_what, verb, more, shows) => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook, `{"order":"${verb}-4711"}`);
  const { id, receipt } = await agent.claimOne();
  expect((await agent.post(verb, { receipts: [receipt], ...more })).status).toBe(200);
  const page = await get(`/deliveries/${id}?view=raw`, viewer);
  expect(page.includes(`${verb}-4711`)).toBe(shows);
  expect(page).not.toContain('view=diff');
});

test('dead letters on the page of an agent are ordered by when their events were received', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const nowMs = Date.now();
  for (const secondsAgo of [30, 20, 10]) await storeEvents(app.database, webhook.id, 1, nowMs - secondsAgo * 1_000);
  const claimed = await agent.claim();
  for (const [index, { id }] of claimed.entries())
    await app.sql(
      `update deliveries set state = 'dead', finished_at = now() - make_interval(mins => $2) where id = $1`,
      id,
      [5, 1, 3][index],
    );
  const page = await get(`/agents/${agent.id}`, viewer);
  const table = page.split('id="s-dead"')[1]!.split('</table>')[0]!;
  const times = (label: string) =>
    [...table.matchAll(new RegExp(`data-label="${label}"><time datetime="([^"]+)"`, 'g'))].map(([, at]) => at!);
  const received = times('Received');
  expect(received).toHaveLength(3);
  expect(received).toEqual([...received].sort().reverse());
  expect(times('Finished')).toHaveLength(3);
  // An id in capital letters is that of the agent. The time of its last request is written behind.
  for (const id of [agent.id, agent.id.toUpperCase()])
    await until(async () => /seen &lt; 1 min ago from 127\.0\.0\.1/.test(await get(`/agents/${id}`, viewer)));
});
