/** What the history of a delivery contains after each way in which an attempt ends, and after each action of a user. */
import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { parseReceipt } from '../../../server/store/queries/claims/receipts.ts';
import { settleDeliveries } from '../../../server/store/queries/claims/settle.ts';
import {
  type ActionKind,
  actOnDeliveries,
  dismissDelivery,
  replayDelivery,
  undoAction,
} from '../../../server/store/queries/deliveries/actions.ts';
import { endLastLeases } from '../../../server/store/queries/deliveries/deliveries.ts';
import { HISTORY_MAX, readAttempts } from '../../../server/store/queries/deliveries/history.ts';
import { agentsOf, letPass, rowOf, send, startAgentApp, subscribed, type TestAgent } from '../../helpers/agents.ts';
import { shared } from '../../helpers/shared.ts';

const ATTEMPTS_MAX = 2;
const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: ATTEMPTS_MAX }));

async function agentWithEvent(): Promise<TestAgent> {
  const { webhook, agent } = await subscribed(app);
  await send(webhook);
  return agent;
}

const attempts = async (id: string) => (await readAttempts(app.database, { deliveryId: id }, Date.now())).get(id)!;
const outcomes = async (id: string) => (await attempts(id)).map(({ outcome }) => outcome);
const act = (kind: ActionKind, agent: TestAgent, state: 'dead' | 'done' = 'dead') => {
  const actionId = randomUUID();
  const order = { kind, state, agentId: agent.id, webhookId: null };
  return app.database.transaction(async (query) => {
    await actOnDeliveries({ query }, actionId, order);
    return actionId;
  });
};
const undo = (id: string) => app.database.transaction((query) => undoAction({ query }, id));

/** A dead delivery with two rejected attempts. */
async function dead() {
  const agent = await agentWithEvent();
  for (let i = 0; i < ATTEMPTS_MAX; i++) {
    const { receipt } = await agent.claimOne();
    await agent.nack([receipt], { delay_seconds: 0, reason: `timeout ${i}` });
  }
  const [row] = await app.sql<{ id: string }>('select id from deliveries where agent_id = $1', agent.id);
  return { agent, id: row!.id };
}

describe('an attempt', () => {
  test('in progress has its agent address and lease', async () => {
    const agent = await agentWithEvent();
    const { id } = await agent.claimOne({ lease_seconds: 60 });
    expect(await attempts(id)).toEqual([
      {
        outcome: null,
        lease: 1,
        leased_at: expect.stringMatching(/Z$/),
        lease_seconds: 60,
        agent_address: '127.0.0.1',
        at: null,
        duration_ms: null,
        reason: null,
        retry_seconds: null,
      },
    ]);
  });

  test('that succeeds at once is described by the delivery alone', async () => {
    const agent = await agentWithEvent();
    const { id, receipt } = await agent.claimOne();
    await agent.ack([receipt]);
    expect(await attempts(id)).toMatchObject([{ outcome: 'acknowledged', lease: 1, duration_ms: expect.any(Number) }]);
    const rows = await app.sql('select history from deliveries where id = $1', id);
    expect(rows).toEqual([{ history: null }]);
  });

  test('that is rejected has its reason and the delay that applies', async () => {
    const agent = await agentWithEvent();
    const { id, receipt } = await agent.claimOne();
    await agent.nack([receipt], { reason: 'timeout calling CRM' });
    const [rejected] = await attempts(id);
    expect(rejected).toMatchObject({
      outcome: 'rejected',
      lease: 1,
      reason: 'timeout calling CRM',
      lease_seconds: 3600,
    });
    const { seconds } = await rowOf(app.database, id);
    expect(rejected!.retry_seconds! - seconds).toBeGreaterThanOrEqual(-0.06);
    expect(rejected!.retry_seconds!).toBeLessThanOrEqual(5);
  });

  test('whose lease expires is kept by the next claim', async () => {
    const agent = await agentWithEvent();
    const { id } = await agent.claimOne({ lease_seconds: 60 });
    await letPass(app.database, 60);
    expect(await attempts(id)).toMatchObject([{ outcome: 'expired', lease_seconds: 60, duration_ms: 60_000 }]);
    const { receipt } = await agent.claimOne();
    await agent.ack([receipt]);
    expect(await attempts(id)).toMatchObject([
      { outcome: 'expired', lease: 1, lease_seconds: 60, duration_ms: 60_000 },
      { outcome: 'acknowledged', lease: 2 },
    ]);
  });

  test('whose last lease expires is kept, by a claim and by maintenance', async () => {
    const agent = await agentWithEvent();
    const expire = async () => {
      const { id } = await agent.claimOne();
      await letPass(app.database, 3_600);
      return id;
    };
    await expire();
    const id = await expire();
    expect(await agent.claim()).toEqual([]);
    expect(await outcomes(id)).toEqual(['expired', 'expired']);
    const reason = 'the last lease expired without an acknowledgement';
    expect(await rowOf(app.database, id)).toMatchObject({ state: 'dead', attempts: 2, finished: true, reason });
    await replayDelivery(app.database, id);
    await expire();
    await expire();
    expect(await endLastLeases(app.database, ATTEMPTS_MAX)).toBe(1);
    expect(await outcomes(id)).toEqual(['expired', 'expired', 'replayed', 'expired', 'expired']);
  });

  test('whose response did not reach the agent is kept', async () => {
    const agent = await agentWithEvent();
    const { id, receipt } = await agent.claimOne();
    await settleDeliveries(app.database, agent.id, [parseReceipt(receipt)!], { kind: 'release' });
    expect(await attempts(id)).toMatchObject([{ outcome: 'released', lease: 1 }]);
  });

  test('of an agent that is revoked ends then', async () => {
    const agent = await agentWithEvent();
    const { id } = await agent.claimOne();
    await agentsOf(app).revoke(agent.id);
    expect(await attempts(id)).toMatchObject([{ outcome: 'revoked', lease: 1, at: expect.any(String) }]);
  });
});

describe('a replay', () => {
  test('of a done delivery: it is pending again, with zero attempts and a new receipt', async () => {
    const agent = await agentWithEvent();
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

  test('of a leased delivery changes nothing', async () => {
    const agent = await agentWithEvent();
    const leased = await agent.claimOne();
    expect(await replayDelivery(app.database, leased.id)).toBe(false);
    expect(await agent.ack([leased.receipt])).toEqual({ done: [leased.receipt], gone: [] });
  });

  test('is a mark, and erases neither attempts nor the reason', async () => {
    const { agent, id } = await dead();
    expect(await replayDelivery(app.database, id)).toBe(true);
    expect(await rowOf(app.database, id)).toMatchObject({ state: 'pending', attempts: 0, reason: 'timeout 1' });
    const { receipt } = await agent.claimOne();
    await agent.ack([receipt]);
    await replayDelivery(app.database, id);
    expect(await attempts(id)).toMatchObject([
      { outcome: 'rejected', lease: 1, reason: 'timeout 0' },
      { outcome: 'rejected', lease: 2, reason: 'timeout 1' },
      { outcome: 'replayed', lease: null, leased_at: null },
      { outcome: 'acknowledged', lease: 3 },
      { outcome: 'replayed' },
    ]);
  });

  test.each([
    ['dead', async () => dead()],
    [
      'done',
      async () => {
        const agent = await agentWithEvent();
        const { id, receipt } = await agent.claimOne();
        await agent.ack([receipt]);
        return { agent, id };
      },
    ],
  ] as const)('of many is undone: %s again, with its attempts', async (state, make) => {
    const { agent, id } = await make();
    const before = await rowOf(app.database, id);
    const actionId = await act('replay', agent, state);
    expect(await undo(actionId)).toEqual({ kind: 'replay', restored: 1, others: 0 });
    expect(await rowOf(app.database, id)).toMatchObject({ state, attempts: before.attempts, finished: true });
    expect((await outcomes(id)).slice(-2)).toEqual(['replayed', 'restored']);
    // The acknowledgement is listed once, also after another replay.
    await replayDelivery(app.database, id);
    const leases = (await attempts(id)).flatMap(({ lease }) => lease ?? []);
    expect(leases).toEqual([...new Set(leases)]);
    expect(await undo(actionId)).toBeNull();
  });

  test('of many is not undone for a delivery that was claimed since', async () => {
    const { agent, id } = await dead();
    const actionId = await act('replay', agent);
    const { receipt } = await agent.claimOne();
    expect(await undo(actionId)).toEqual({ kind: 'replay', restored: 0, others: 1 });
    expect(await rowOf(app.database, id)).toMatchObject({ state: 'leased' });
    await agent.ack([receipt]);
  });
});

describe('a dismissal', () => {
  test('ends a dead delivery, which can be replayed', async () => {
    const { agent, id } = await dead();
    expect(await dismissDelivery(app.database, id)).toBe(true);
    expect(await dismissDelivery(app.database, id)).toBe(false);
    expect(await rowOf(app.database, id)).toMatchObject({ state: 'dismissed', finished: true });
    expect(await agent.claim()).toEqual([]);
    await replayDelivery(app.database, id);
    expect((await agent.claimOne()).id).toBe(id);
    expect(await outcomes(id)).toEqual(['rejected', 'rejected', 'dismissed', 'replayed', null]);
  });

  test('of many is undone, unless a delivery was replayed since', async () => {
    const { agent, id } = await dead();
    const first = await act('dismissal', agent);
    expect(await undo(first)).toEqual({ kind: 'dismissal', restored: 1, others: 0 });
    expect(await rowOf(app.database, id)).toMatchObject({ state: 'dead', attempts: ATTEMPTS_MAX });
    const second = await act('dismissal', agent);
    await replayDelivery(app.database, id);
    expect(await undo(second)).toEqual({ kind: 'dismissal', restored: 0, others: 1 });
  });

  test('of many is not undone after a day', async () => {
    const { agent } = await dead();
    const actionId = await act('dismissal', agent);
    await app.sql(`update delivery_actions set created_at = created_at - interval '24 hours' where id = $1`, actionId);
    expect(await undo(actionId)).toBeNull();
  });
});

test.each([
  [HISTORY_MAX, 1],
  [HISTORY_MAX + 1, 2],
])('of %i entries, the history starts with lease %i', async (entries, first) => {
  const agent = await agentWithEvent();
  let id = '';
  for (let i = 0; i < entries; i++) {
    await app.sql('update deliveries set attempts = 0 where agent_id = $1', agent.id);
    const claimed = await agent.claimOne();
    id = claimed.id;
    await agent.nack([claimed.receipt], { delay_seconds: 0 });
  }
  const kept = await attempts(id);
  expect([kept.length, kept[0]!.lease, kept.at(-1)!.lease]).toEqual([HISTORY_MAX, first, entries]);
});
