/** Last leases that expire while no agent claims: maintenance turns them into dead letters. */
import { expect, test } from 'vitest';
import { endLastLeases } from '../../../server/store/queries/deliveries/deliveries.ts';
import { letPass, rowOf, startAgentApp, storeEvents, subscribed } from '../../helpers/agents.ts';
import { shared } from '../../helpers/shared.ts';

const ATTEMPTS_MAX = 2;
const app = shared(() => startAgentApp({ DELIVERY_MAX_ATTEMPTS: ATTEMPTS_MAX }));

/** Deliveries under their last lease. */
async function withLastLease(count: number) {
  const { webhook, agent } = await subscribed(app);
  await storeEvents(app.database, webhook.id, count);
  const claimAll = async () => {
    const first = await agent.claim();
    return first.length === count ? first : [...first, ...(await agent.claim())];
  };
  await claimAll();
  await letPass(app.database, 3_600);
  const deliveries = await claimAll();
  expect(deliveries).toHaveLength(count);
  return { agent, deliveries };
}

test('a delivery whose last lease expired is a dead letter, and its receipt is gone', async () => {
  const { agent, deliveries } = await withLastLease(1);
  const { id, receipt } = deliveries[0]!;
  expect(await endLastLeases(app.database, ATTEMPTS_MAX)).toBe(0);
  await letPass(app.database, 3_600);
  expect(await endLastLeases(app.database, ATTEMPTS_MAX)).toBe(1);
  expect(await rowOf(app.database, id)).toMatchObject({
    state: 'dead',
    attempts: 2,
    finished: true,
    reason: 'the last lease expired without an acknowledgement',
  });
  expect(await agent.ack([receipt])).toEqual({ done: [], gone: [receipt] });
  expect(await agent.nack([receipt])).toEqual({ done: [], gone: [receipt] });
});

test('a delivery whose last lease expired is claimable again if DELIVERY_MAX_ATTEMPTS was raised', async () => {
  await withLastLease(1);
  await letPass(app.database, 3_600);
  expect(await endLastLeases(app.database, ATTEMPTS_MAX + 1)).toBe(0);
  expect(await endLastLeases(app.database, ATTEMPTS_MAX)).toBe(1);
});

test('more expired last leases than one statement processes are all ended', async () => {
  await withLastLease(1_001);
  await letPass(app.database, 3_600);
  // Weir stops, so the next run ends the other leases.
  expect(await endLastLeases(app.database, ATTEMPTS_MAX, undefined, () => true)).toBe(1_000);
  await withLastLease(1_001);
  await letPass(app.database, 3_600);
  expect(await endLastLeases(app.database, ATTEMPTS_MAX)).toBe(1_002);
});
