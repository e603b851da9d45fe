/** Attempts of a delivery, dead letters by reason, and the replay, dismissal and undo of many. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { addAgent, agentsOf, request, send, startAgentApp, type TestAgent } from '../../../helpers/agents.ts';
import { addPerson, lastAudit } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1 }));
const operator = shared(() => addPerson(app, 'operator'));

const PATH = '/api/v1/deliveries';
/** Dead letters of two agents of one webhook, rejected with these reasons by both. */
async function deadLetters(reasons: (string | undefined)[]) {
  const webhook = await app.addWebhook();
  const agents = [await addAgent(app, [webhook]), await addAgent(app, [webhook])] as const;
  for (const reason of reasons) {
    await send(webhook);
    for (const agent of agents) {
      const { receipt } = await agent.claimOne();
      await agent.nack([receipt], reason === undefined ? {} : { reason });
    }
  }
  const inState = async (state: string): Promise<number> =>
    (await operator.api('GET', `${PATH}?webhook_id=${webhook.id}&state=${state}`)).body.items.length;
  return { webhook, agents, inState };
}

test('the attempts of a delivery are listed for users and for its own agent only', async () => {
  const { webhook, agents } = await deadLetters(['timeout']);
  const own = `${PATH}?webhook_id=${webhook.id}&agent_id=${agents[0].id}`;
  const [{ id }] = (await operator.api('GET', own)).body.items;
  const listed = await operator.api('GET', `${PATH}/${id}/attempts`);
  expect(listed.body.items).toMatchObject([{ outcome: 'rejected', reason: 'timeout', agent_address: '127.0.0.1' }]);
  const seenBy = (agent: TestAgent) => request(`${app.url}${PATH}/${id}/attempts`, agent.token);
  expect((await seenBy(agents[0])).body).toEqual(listed.body);
  expect((await seenBy(agents[1])).body.code).toBe('delivery_unknown');
});

describe('dead letters', () => {
  test('are grouped by reason over all agents, the most frequent first', async () => {
    const { webhook, agents } = await deadLetters(['timeout', undefined, 'timeout', 'gone ']);
    const { body } = await operator.api('GET', `${PATH}/dead?webhook_id=${webhook.id}`);
    expect(body.complete).toBe(true);
    const counts = new Map(
      body.items.map((group: { reason: string; deliveries: number }) => [group.reason, group.deliveries]),
    );
    expect(counts).toEqual(
      new Map<string | null, number>([
        ['timeout', 4],
        [null, 2],
        ['gone ', 2],
      ]),
    );
    expect(body.items[0]).toMatchObject({ agents: 2, agent_ids: agents.map(({ id }) => id).sort() });
    const ofOne = await operator.api('GET', `${PATH}/dead?webhook_id=${webhook.id}&agent_id=${agents[0].id}`);
    expect(ofOne.body.items[0]).toMatchObject({ reason: 'timeout', deliveries: 2, agents: 1 });
  });

  test('are listed by their whole reason', async () => {
    const { webhook } = await deadLetters(['timeout', 'gone ']);
    const listed = async (reason: string) =>
      (await operator.api('GET', `${PATH}?webhook_id=${webhook.id}&reason=${encodeURIComponent(reason)}`)).body.items;
    expect(await listed('gone ')).toHaveLength(2);
    expect(await listed('gone')).toHaveLength(0);
  });

  test('of one reason are replayed over all agents, and the replay is undone', async () => {
    const { webhook, agents, inState } = await deadLetters(['timeout', 'timeout', undefined]);
    const order = { state: 'dead', webhook_id: webhook.id, reason: 'timeout' };
    const { body } = await operator.api('POST', `${PATH}/replay`, order);
    expect(body).toEqual({
      replayed: 4,
      more: false,
      finished_before: expect.any(String),
      action_id: expect.any(String),
    });
    expect(await lastAudit(app)).toMatchObject({
      action: 'delivery.replay',
      target: { kind: 'deliveries', id: body.action_id, name: '4 deliveries' },
      after: { state: 'dead', webhook_id: webhook.id, reason: 'timeout', replayed: 4 },
    });
    await agents[0].claimOne();
    const undone = await operator.api('POST', `${PATH}/undo`, { action_id: body.action_id });
    expect(undone.body).toEqual({ restored: 3, others: 1 });
    expect(await lastAudit(app)).toMatchObject({ action: 'delivery.undo', after: { restored: 3 } });
    expect([await inState('dead'), await inState('leased')]).toEqual([5, 1]);
    const again = await operator.api('POST', `${PATH}/undo`, { action_id: body.action_id });
    expect([again.status, again.body.code]).toEqual([404, 'action_unknown']);
  });

  test('without a reason are dismissed, are replayable, and the dismissal is undone', async () => {
    const { webhook, inState } = await deadLetters([undefined, 'timeout']);
    const dismiss = () => operator.api('POST', `${PATH}/dismiss`, { webhook_id: webhook.id, reason: null });
    const { body } = await dismiss();
    expect(body).toEqual({
      dismissed: 2,
      more: false,
      finished_before: expect.any(String),
      action_id: expect.any(String),
    });
    expect([await inState('dead'), await inState('dismissed')]).toEqual([2, 2]);
    expect((await operator.api('POST', `${PATH}/undo`, { action_id: body.action_id })).body.restored).toBe(2);
    await dismiss();
    const order = { state: 'dismissed', webhook_id: webhook.id };
    expect((await operator.api('POST', `${PATH}/replay`, order)).body.replayed).toBe(2);
    expect([await inState('dead'), await inState('pending')]).toEqual([2, 2]);
  });

  test('of a revoked agent are not replayed with those of the others', async () => {
    const { webhook, agents, inState } = await deadLetters(['timeout']);
    await agentsOf(app).revoke(agents[0].id);
    const order = { state: 'dead', webhook_id: webhook.id };
    expect((await operator.api('POST', `${PATH}/replay`, order)).body.replayed).toBe(1);
    expect(await inState('dead')).toBe(1);
  });
});

test.each([
  ['dismiss', { reason: 7 }, '/reason'],
  ['dismiss', { reason: 'a\0b' }, '/reason'],
  ['dismiss', { state: 'dead' }, '/state'],
  ['undo', {}, '/action_id'],
])('%s with %j is refused', async (name, body, pointer) => {
  const answer = await operator.api('POST', `${PATH}/${name}`, body);
  expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
});

test('the dismissal of an unknown agent is refused', async () => {
  const { status, body } = await operator.api('POST', `${PATH}/dismiss`, { agent_id: randomUUID() });
  expect([status, body.code]).toEqual([404, 'agent_unknown']);
});

describe('chosen deliveries', () => {
  const idsOf = async (webhookId: string, state: string): Promise<string[]> =>
    (await operator.api('GET', `${PATH}?webhook_id=${webhookId}&state=${state}`)).body.items.map(
      ({ id }: { id: string }) => id,
    );

  test('are dismissed, then replayed whatever their state, and restored by one undo', async () => {
    const { webhook, inState } = await deadLetters(['a', 'b']);
    const [one, two, three] = (await idsOf(webhook.id, 'dead')) as [string, string, string, string];
    const dismissed = await operator.api('POST', `${PATH}/dismiss`, { delivery_ids: [one] });
    expect(dismissed.body).toMatchObject({ dismissed: 1, more: false });
    expect([await inState('dead'), await inState('dismissed')]).toEqual([3, 1]);
    const replayed = await operator.api('POST', `${PATH}/replay`, { delivery_ids: [one, two, three] });
    expect(replayed.body).toMatchObject({ replayed: 3, more: false });
    expect(await lastAudit(app)).toMatchObject({
      action: 'delivery.replay',
      after: { delivery_ids: [one, two, three] },
    });
    expect([await inState('pending'), await inState('dead')]).toEqual([3, 1]);
    const undone = await operator.api('POST', `${PATH}/undo`, { action_id: replayed.body.action_id });
    expect(undone.body).toEqual({ restored: 3, others: 0 });
    expect([await inState('dead'), await inState('dismissed')]).toEqual([3, 1]);
  });

  test('that are not dead are not dismissed', async () => {
    const { webhook } = await deadLetters(['a']);
    const ids = await idsOf(webhook.id, 'dead');
    await operator.api('POST', `${PATH}/replay`, { delivery_ids: ids.slice(0, 1) });
    const dismissed = await operator.api('POST', `${PATH}/dismiss`, { delivery_ids: ids });
    expect(dismissed.body.dismissed).toBe(1);
  });

  test.each([
    ['none', { delivery_ids: [] }, 422],
    ['100', { delivery_ids: Array(100).fill('01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a') }, 200],
    ['101', { delivery_ids: Array(101).fill('01a1ffb5-5d09-7a0f-8647-f39e08b2fc0a') }, 422],
    ['an id after the year 9999', { delivery_ids: ['ffffffff-ffff-7fff-8fff-ffffffffffff'] }, 422],
    ['no state and no ids', {}, 422],
  ])('%s: %j', async (_, input, status) => {
    expect((await operator.api('POST', `${PATH}/replay`, input)).status).toBe(status);
  });
});

test('the list has a time range, from the first millisecond to before the last', async () => {
  const { webhook } = await deadLetters(['a', 'b', 'c']);
  const listed = async (query: string): Promise<string[]> =>
    (await operator.api('GET', `${PATH}?webhook_id=${webhook.id}${query}`)).body.items.map(
      ({ received_at }: { received_at: string }) => received_at,
    );
  const times = await listed('');
  const [to, from] = [times[0]!, times.at(-1)!];
  const found = await listed(`&from=${from}&to=${to}`);
  expect(found).toEqual(times.filter((time) => time >= from && time < to));
  expect(found.length).toBeGreaterThan(0);
  expect((await operator.api('GET', `${PATH}?from=${to}&to=2001-01-01T00:00:00Z`)).status).toBe(422);
});
