import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { uuidText, uuidv7 } from '../../server/db/ids.ts';
import { ClaimWaiters } from '../../server/deliveries/waiters.ts';
import { ClaimWatermarks } from '../../server/deliveries/watermarks.ts';
import { takeClock } from '../helpers/clock.ts';
import { type FreshDatabase, freshDatabase } from '../helpers/postgres.ts';

const WAIT_MS = 5_000;
const FULL_SCAN_EVERY_MS = 15_000;

let fresh: FreshDatabase;
const agentId = randomUUID();

beforeAll(async () => {
  fresh = await freshDatabase();
  const webhookId = randomUUID();
  const { database } = fresh;
  await database.query({ text: `insert into webhooks (id, name) values ($1, 'a')`, values: [webhookId] });
  await database.query({
    text: `insert into agents (id, name, lookup_id, secret_hash) values ($1, 'a', 'abcdefghijkl', $2)`,
    values: [agentId, randomBytes(32)],
  });
  await database.query({ text: 'insert into subscriptions values ($1, $2)', values: [webhookId, agentId] });
  // The state that a rolled-back claim leaves after another one has advanced the floor.
  const nowMs = Date.now();
  await database.query({
    text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, available_at)
           values ($1, $2, $3, $4, $5, 1, now() - interval '1 hour')`,
    values: [uuidText(uuidv7(nowMs, randomBytes(16))), webhookId, agentId, randomUUID(), new Date(nowMs).toISOString()],
  });
});

afterAll(() => fresh.drop());

test('a notification between a query and its wait is not missed', async () => {
  const waiters = new ClaimWaiters(fresh.database, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const commitsBefore = waiters.commits;
  waiters.committed();
  const startMs = performance.now();
  await waiters.wait(agentId, WAIT_MS, commitsBefore, () => {});
  expect(performance.now() - startMs).toBeLessThan(900);
});

/** Whether a claim that waits was woken, rather than that its time was over. */
async function isWoken(waiters: ClaimWaiters): Promise<boolean> {
  let timer: NodeJS.Timeout | undefined;
  const tooLate = new Promise<false>((resolve) => {
    timer = setTimeout(() => resolve(false), 3_000);
  });
  const woken = waiters.wait(agentId, WAIT_MS, waiters.commits, () => {}).then(() => true as const);
  const outcome = await Promise.race([woken, tooLate]);
  clearTimeout(timer);
  return outcome;
}

test('deliveries below the watermark are not queried, except once in 15 seconds; then the next claim queries all', async () => {
  const clock = takeClock();
  // The first look of all is one at everything, and takes place before the watermark is learnt.
  clock.forward(FULL_SCAN_EVERY_MS);
  const watermarks = new ClaimWatermarks();
  const waiters = new ClaimWaiters(fresh.database, watermarks);
  onTestFinished(() => waiters.close());
  expect(await isWoken(waiters)).toBe(true);

  watermarks.learn(agentId, Date.now(), performance.now());
  expect(await isWoken(waiters)).toBe(false);

  clock.forward(FULL_SCAN_EVERY_MS);
  expect(await isWoken(waiters)).toBe(true);
  expect(watermarks.forClaim(agentId, performance.now())).toBe('-infinity');
});
