import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  addAgent,
  letPass,
  request,
  send,
  startAgentApp,
  storeEvents,
  type TestAgent,
} from '../../../helpers/agents.ts';
import { addPerson, lastAudit } from '../../../helpers/people.ts';
import { signedRequest } from '../../../helpers/requests.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1 }));
const operator = shared(() => addPerson(app, 'operator'));
const viewer = shared(() => addPerson(app, 'viewer'));

const PATH = '/api/v1/deliveries';

/** An agent with this many dead deliveries. */
async function agentWithDead(count: number) {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const eventIds: string[] = [];
  for (let i = 0; i < count; i++) eventIds.push(await send(webhook));
  const claimed = await agent.claim();
  await agent.nack(
    claimed.map(({ receipt }) => receipt),
    { reason: 'no luck' },
  );
  return { webhook, agent, eventIds, ids: claimed.map(({ id }) => id).sort() };
}

const listed = async (query: string) =>
  (await viewer.api('GET', `${PATH}?${query}`)).body.items.map(({ id }: { id: string }) => id).sort();
const counts = async (query: string) => (await viewer.api('GET', `${PATH}/counts?${query}`)).body;

test('the list filters by agent, webhook, event and state, separately and combined', async () => {
  const { webhook, agent, eventIds, ids } = await agentWithDead(3);
  const other = await addAgent(app, [webhook]);
  const eventId = await send(webhook);
  expect(await listed(`agent_id=${agent.id.toUpperCase()}&state=dead`)).toEqual(ids);
  expect(await listed(`webhook_id=${webhook.id}&state=dead`)).toEqual(ids);
  expect(await listed(`event_id=${eventIds[0]}`)).toHaveLength(1);
  expect(await listed(`event_id=${eventId}`)).toHaveLength(2);
  expect(await listed(`event_id=${eventId}&agent_id=${other.id}`)).toHaveLength(1);
  expect(await listed(`event_id=${eventId}&agent_id=${other.id}&state=dead`)).toEqual([]);
});

describe('one delivery', () => {
  test.each([3, 1200])('that is pending or leased is ordered newest first, for %i deliveries', async (count) => {
    const webhook = await app.addWebhook();
    const agent = await addAgent(app, [webhook]);
    await storeEvents(app.database, webhook.id, count);
    const leased = (await agent.claim({ max: 2 })).map(({ id }) => id);
    const page = async (query: string) => (await viewer.api('GET', `${PATH}?agent_id=${agent.id}&${query}`)).body;
    const ids = (list: { items: { id: string }[] }) => list.items.map(({ id }) => id);

    expect(ids(await page('state=leased'))).toEqual([...leased].sort().reverse());
    const first = await page('state=pending&limit=1');
    const rest = await page(`state=pending&limit=200&cursor=${first.next_cursor ?? first.items[0].id}`);
    const seen = [...ids(first), ...ids(rest)];
    expect(seen).toEqual([...seen].sort().reverse());
    expect(new Set(seen).size).toBe(Math.min(count - 2, 201));
    expect(seen).not.toEqual(expect.arrayContaining(leased));
  });

  test('is shown to users and to its own agent only', async () => {
    const { agent, ids, eventIds, webhook } = await agentWithDead(1);
    const other = await addAgent(app, [webhook]);
    const shown = (await viewer.api('GET', `${PATH}/${ids[0]}`)).body;
    expect(shown).toEqual({
      id: ids[0],
      event_id: eventIds[0],
      event_type: null,
      webhook_id: webhook.id,
      agent_id: agent.id,
      state: 'dead',
      attempts: 1,
      received_at: expect.stringMatching(/Z$/),
      available_at: expect.stringMatching(/Z$/),
      finished_at: expect.stringMatching(/Z$/),
      order_key: null,
      held: false,
      reason: 'no luck',
    });
    const seenBy = (who: TestAgent) => request(`${app.url}${PATH}/${ids[0]}`, who.token);
    expect((await seenBy(agent)).body).toEqual(shown);
    expect((await seenBy(other)).body.code).toBe('delivery_unknown');
    const foreign = await request(`${app.url}${PATH}?agent_id=${agent.id}`, other.token);
    expect([foreign.status, foreign.body.items]).toEqual([200, []]);
  });

  test('has the type of its event', async () => {
    const webhook = await app.addWebhook({ event_type_from: 'header:x-kind' });
    const agent = await addAgent(app, [webhook]);
    for (const kind of ['order.created', 'order.paid']) {
      const sent = await fetch(webhook.url, signedRequest({ secret: webhook.secret, headers: { 'x-kind': kind } }));
      expect(sent.status).toBe(202);
    }
    const { items } = (await viewer.api('GET', `${PATH}?agent_id=${agent.id}`)).body;
    const typeOf = ({ event_type }: { event_type: string }) => event_type;
    expect(items.map(typeOf)).toEqual(['order.paid', 'order.created']);
    expect((await viewer.api('GET', `${PATH}/${items[1].id}`)).body).toEqual(items[1]);
  });
});

describe('a replay', () => {
  test('of a dead delivery makes it pending again, is recorded, and its agent receives it', async () => {
    const { agent, ids } = await agentWithDead(1);
    const { status, body } = await operator.api('POST', `${PATH}/${ids[0]}/replay`);
    expect([status, body]).toEqual([
      200,
      expect.objectContaining({ state: 'pending', attempts: 0, reason: 'no luck' }),
    ]);
    expect(await lastAudit(app)).toMatchObject({
      action: 'delivery.replay',
      actor: { id: operator.id },
      target: { kind: 'delivery', id: ids[0] },
      before: { state: 'dead' },
      after: { state: 'pending' },
    });
    expect((await agent.claimOne()).id).toBe(ids[0]);
  });

  test('of a delivery in progress is refused', async () => {
    const { agent, ids } = await agentWithDead(1);
    await operator.api('POST', `${PATH}/${ids[0]}/replay`);
    for (const _state of ['pending', 'leased']) {
      const { status, body } = await operator.api('POST', `${PATH}/${ids[0]}/replay`);
      expect([status, body.code]).toEqual([409, 'delivery_unfinished']);
      await agent.claim();
    }
  });

  test('is claimed even after the subscription has ended', async () => {
    const { agent, ids } = await agentWithDead(2);
    await operator.api('PATCH', `/api/v1/agents/${agent.id}`, { webhook_ids: [] });
    await operator.api('POST', `${PATH}/${ids[0]}/replay`);
    expect((await agent.claimOne()).id).toBe(ids[0]);
    await operator.api('POST', `${PATH}/replay`, { agent_id: agent.id, state: 'dead' });
    expect((await agent.claimOne()).id).toBe(ids[1]);
  });

  test('of many covers one agent and one state, and one webhook if given', async () => {
    const { agent, webhook } = await agentWithDead(3);
    const order = { agent_id: agent.id, state: 'dead' };
    const replay = async (body: object) => (await operator.api('POST', `${PATH}/replay`, body)).body;
    const answer = { more: false, finished_before: expect.any(String) };
    const none = { ...answer, replayed: 0, action_id: null };
    expect(await replay({ ...order, webhook_id: randomUUID() })).toEqual(none);
    expect(await replay({ ...order, state: 'done' })).toEqual(none);
    expect(await replay({ ...order, webhook_id: webhook.id })).toEqual({
      ...answer,
      replayed: 3,
      action_id: expect.any(String),
    });
    expect(await lastAudit(app)).toMatchObject({
      action: 'delivery.replay',
      target: { kind: 'agent', id: agent.id },
      after: { state: 'dead', webhook_id: webhook.id, replayed: 3 },
    });
    expect(await agent.claim()).toHaveLength(3);
  });

  test('of many, when repeated, leaves out what was acknowledged since the first request', async () => {
    const { agent } = await agentWithDead(1);
    const order = { agent_id: agent.id, state: 'done' };
    const replay = async (body: object) => (await operator.api('POST', `${PATH}/replay`, body)).body;
    await replay({ ...order, state: 'dead' });
    await agent.ack([(await agent.claimOne()).receipt]);
    const first = await replay(order);
    await agent.ack([(await agent.claimOne()).receipt]);
    const { finished_before } = first;
    expect([first.replayed, (await replay({ ...order, finished_before })).replayed]).toEqual([1, 0]);
    expect((await replay(order)).replayed).toBe(1);
  });

  test.each([
    ['acknowledged ones of no agent', { state: 'done' }, '/agent_id'],
    ['filtered ones of no agent', { state: 'filtered' }, '/agent_id'],
    ['an invalid agent id', { agent_id: 'x', state: 'dead' }, '/agent_id'],
    ['no state', { agent_id: randomUUID() }, '/state'],
    ['a state of those on their way', { agent_id: randomUUID(), state: 'leased' }, '/state'],
    ['an invalid webhook id', { agent_id: randomUUID(), state: 'dead', webhook_id: 1 }, '/webhook_id'],
    ['an unknown field', { agent_id: randomUUID(), state: 'dead', all: true }, '/all'],
  ])('of many with %s is refused', async (_what, body, pointer) => {
    const answer = await operator.api('POST', `${PATH}/replay`, body);
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
  });

  test('of many for an unknown agent is refused', async () => {
    const { status, body } = await operator.api('POST', `${PATH}/replay`, { agent_id: randomUUID(), state: 'dead' });
    expect([status, body.code]).toEqual([404, 'agent_unknown']);
  });
});

test('the counts are per agent, per webhook, or both', async () => {
  const { agent, webhook } = await agentWithDead(2);
  for (let i = 0; i < 3; i++) await send(webhook);
  await agent.claimOne();
  const both = await addAgent(app, [webhook]);
  await send(webhook);
  await letPass(app.database, 0);
  expect(await counts(`agent_id=${agent.id}`)).toEqual({ pending: 3, leased: 1, dead: 2, exact: true });
  expect(await counts(`agent_id=${both.id}&webhook_id=${webhook.id}`)).toEqual({
    pending: 1,
    leased: 0,
    dead: 0,
    exact: true,
  });
  expect(await counts(`webhook_id=${webhook.id}`)).toEqual({ pending: 4, leased: 1, dead: 2, exact: true });
  const all = await counts('');
  expect(all.dead).toBeGreaterThanOrEqual(2);
});
