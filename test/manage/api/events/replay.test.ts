/** New deliveries of an event, by the API and by the command; both write an audit entry or nothing. */
import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { addAgent, agentsOf, send, startAgentApp, type TestAgent } from '../../../helpers/agents.ts';
import { weir } from '../../../helpers/command.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { made } from '../../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook());
const subscribed = shared(() => addAgent(app, [webhook]));
const stranger = shared(() => addAgent(app));
const revoked = shared(() => addAgent(app));
beforeAll(() => agentsOf(app).revoke(revoked.id));

const NOTHING = '01900000-0000-7000-8000-000000000000';
const replay = (id: string, input?: unknown) => operator.api('POST', `/api/v1/events/${id}/replay`, input);

interface State {
  deliveries: string[];
  entries: { action: string; entry: Record<string, unknown> }[];
}

async function stateOf(eventId: string): Promise<State> {
  const deliveries = await app.sql<{ id: string }>('select id from deliveries where event_id = $1', eventId);
  const entries = await app.sql<State['entries'][number]>(
    'select action, entry from audit_log where target_id = $1',
    eventId,
  );
  return { deliveries: deliveries.map(({ id }) => id), entries };
}

describe('a replayed event', () => {
  test('is delivered to every subscribed agent, and the audit log names the actor', async () => {
    const event = await send(webhook);
    const before = await stateOf(event);
    const { status, body } = await replay(event);
    expect([status, body]).toEqual([201, { delivery_ids: [expect.stringMatching(/^[0-9a-f-]{36}$/)] }]);
    const after = await stateOf(event);
    expect(after.deliveries.toSorted()).toEqual([...before.deliveries, ...body.delivery_ids].toSorted());
    expect(after.entries).toMatchObject([
      {
        action: 'event.replay',
        entry: {
          actor: { kind: 'token', id: operator.id, name: operator.email },
          after: { agent_ids: null, beyond_subscriptions: false, delivery_ids: body.delivery_ids },
        },
      },
    ]);
    expect((await subscribed.claim()).filter((delivery) => delivery.event.id === event)).toHaveLength(2);
  });

  test('is delivered only to the given agents, once each', async () => {
    const event = await send(webhook);
    const { status, body } = await replay(event, {
      agent_ids: [stranger.id, stranger.id.toUpperCase()],
      beyond_subscriptions: true,
    });
    expect([status, body.delivery_ids.length]).toEqual([201, 1]);
    expect((await stranger.claimOne()).id).toBe(body.delivery_ids[0]);
  });

  test('can be replayed by the command, which is recorded as well', async () => {
    const event = await send(webhook);
    const words = ['event', 'replay', event, '--agent', stranger.id, '--beyond-subscriptions', '--json'];
    const { code, out } = await weir(app, ...words);
    expect([code, JSON.parse(out).delivery_ids.length]).toEqual([0, 1]);
    expect((await stateOf(event)).entries).toMatchObject([{ entry: { actor: { kind: 'command' } } }]);
  });
});

describe('a filter', () => {
  let picky: TestAgent;
  let event: string;
  beforeEach(async () => {
    const other = await app.addWebhook();
    picky = await addAgent(app, [other]);
    made(await agentsOf(app).subscribe(picky.id, other.id, { filter: 'body.kind == "order"' }));
    event = await send(other, '{"kind":"other"}');
    expect(await picky.claim()).toEqual([]);
  });

  test('that excludes the event is named, and nothing is replayed', async () => {
    const { status, body } = await replay(event, { agent_ids: [picky.id, subscribed.id] });
    expect([status, body.code]).toEqual([422, 'no_recipients']);
    expect(body.detail).toMatch(
      /Agent .* is not subscribed to the webhook of the event; the filter of agent .* excludes the event: body.kind == "order"/,
    );
    expect((await stateOf(event)).entries).toEqual([]);
  });

  test('does not apply beyond subscriptions', async () => {
    expect((await replay(event, { beyond_subscriptions: true })).status).toBe(201);
    expect((await picky.claimOne()).event.id).toBe(event);
  });

  test('that passes the event does not judge it again at the claim', async () => {
    const wanted = await send(webhook, '{"kind":"order"}');
    await subscribed.claim({ max: 100 });
    made(await agentsOf(app).subscribe(subscribed.id, webhook.id, { filter: 'body.kind == "order"' }));
    expect((await replay(wanted)).status).toBe(201);
    made(await agentsOf(app).subscribe(subscribed.id, webhook.id, { filter: 'false' }));
    expect((await subscribed.claimOne()).event.id).toBe(wanted);
    made(await agentsOf(app).subscribe(subscribed.id, webhook.id, { filter: null }));
  });
});

describe('nothing is replayed, and the response states the reason', () => {
  const unsubscribed = async () => send(await app.addWebhook());
  test.each<[string, () => Promise<string>, () => unknown, number, string]>([
    ['when there is no such event', async () => NOTHING, () => undefined, 404, 'event_unknown'],
    ['when no agent is subscribed', unsubscribed, () => ({}), 422, 'no_recipients'],
    ['when the list of agents is empty', unsubscribed, () => ({ agent_ids: [] }), 422, 'invalid_request'],
    ['when an agent is not an id', unsubscribed, () => ({ agent_ids: ['*'] }), 422, 'invalid_request'],
    ['when the field is another', unsubscribed, () => ({ agents: [] }), 422, 'invalid_request'],
  ])('%s', async (_what, make, input, status, code) => {
    const event = await make();
    const before = await stateOf(event);
    const answer = await replay(event, input());
    expect([answer.status, answer.body.code]).toEqual([status, code]);
    expect(await stateOf(event)).toEqual(before);
  });

  test('when one of the given agents is unknown or revoked, with a pointer to it', async () => {
    const event = await send(webhook);
    const before = await stateOf(event);
    const { status, body } = await replay(event, { agent_ids: [subscribed.id, revoked.id, randomUUID()] });
    expect([status, body.errors.map(({ pointer }: { pointer: string }) => pointer)]).toEqual([
      422,
      ['/agent_ids/1', '/agent_ids/2'],
    ]);
    expect(await stateOf(event)).toEqual(before);
  });

  test.each([
    ['an unknown event', 1, () => [NOTHING], /no event has the id/],
    ['an unknown agent', 2, (event: string) => [event, '--agent', randomUUID()], /No active agent has the id/],
  ])('when the command gets %s', async (_what, exitCode, words, message) => {
    const { code, err } = await weir(app, 'event', 'replay', ...words(await send(webhook)));
    expect([code, err]).toEqual([exitCode, expect.stringMatching(message)]);
  });
});
