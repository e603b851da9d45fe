/** Replays: finished deliveries are pending again, and earlier receipts are invalid. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { type ActionOrder, actOnDeliveries, replayDelivery } from '../../../server/store/queries/deliveries/actions.ts';
import { deliverAgain } from '../../../server/store/queries/replays/events.ts';
import { addAgent, rowOf, send, startAgentApp } from '../../helpers/agents.ts';
import { shared } from '../../helpers/shared.ts';

const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: 1 }));

async function agentWithEvents(count: number) {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  for (let i = 0; i < count; i++) await send(webhook);
  return { webhook, agent };
}

test('a done delivery is pending again, with zero attempts and a new receipt', async () => {
  const { agent } = await agentWithEvents(1);
  const before = await agent.claimOne();
  await agent.ack([before.receipt]);
  expect(await replayDelivery(app.database, before.id)).toBe(true);
  const again = await agent.claimOne();
  expect(again).toMatchObject({ id: before.id, attempt: 1 });
  expect(again.receipt).not.toBe(before.receipt);
  expect(await agent.ack([before.receipt])).toEqual({ done: [], gone: [before.receipt] });
  expect(await rowOf(app.database, before.id)).toMatchObject({ state: 'leased' });
  expect(await agent.ack([again.receipt])).toEqual({ done: [again.receipt], gone: [] });
});

test('a pending or leased delivery is unchanged', async () => {
  const { agent } = await agentWithEvents(1);
  const leased = await agent.claimOne();
  expect(await replayDelivery(app.database, leased.id)).toBe(false);
  expect(await agent.ack([leased.receipt])).toEqual({ done: [leased.receipt], gone: [] });
});

test('all dead deliveries of an agent are replayed together, or those of one webhook', async () => {
  const { agent, webhook } = await agentWithEvents(3);
  const dead = await agent.claim({ max: 3 });
  await agent.nack(dead.map(({ receipt }) => receipt));
  const other = { kind: 'replay', agentId: agent.id, state: 'dead', webhookId: unknownId } as const;
  const replay = (order: ActionOrder) =>
    app.database.transaction((query) => actOnDeliveries({ query }, randomUUID(), order));
  expect((await replay(other)).count).toBe(0);
  expect((await replay({ ...other, webhookId: webhook.id })).count).toBe(3);
  expect((await agent.claim({ max: 3 })).map(({ id }) => id).sort()).toEqual(dead.map(({ id }) => id).sort());
});

describe('an event is delivered again', () => {
  const scopes = { subscribed: { agentIds: null, beyondSubscriptions: false } };

  test('to every subscribed agent', async () => {
    const { agent } = await agentWithEvents(1);
    const first = await agent.claimOne();
    expect(await deliverAgain(app.database, [first.event.id], scopes.subscribed)).toHaveLength(1);
    expect((await agent.claimOne()).event.id).toBe(first.event.id);
    expect(await deliverAgain(app.database, [unknownId], scopes.subscribed)).toEqual([]);
  });

  test.each([
    [false, 0],
    [true, 1],
  ])('to a named agent without a subscription, if beyond subscriptions is %s: %i deliveries', async (beyond, count) => {
    const { agent } = await agentWithEvents(1);
    const stranger = await addAgent(app);
    const scope = { agentIds: [stranger.id], beyondSubscriptions: beyond };
    const { event } = await agent.claimOne();
    expect(await deliverAgain(app.database, [event.id], scope)).toHaveLength(count);
    expect(await stranger.claim()).toHaveLength(count);
  });
});

/** An unused id. */
const unknownId = '01900000-0000-7000-8000-000000000000';
