import { randomBytes, randomUUID } from 'node:crypto';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { CommitNotifier } from '../../../server/deliver/claims/commit-notifier.ts';
import { ClaimWaiters } from '../../../server/deliver/claims/waiters.ts';
import { ClaimWatermarks } from '../../../server/deliver/claims/watermarks.ts';
import { ChangeListener } from '../../../server/store/connect/listen.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import { uuidText, uuidv7 } from '../../../server/store/ids.ts';
import { holdTimers, takeClock } from '../../helpers/clock.ts';
import { type FreshDatabase, freshDatabase } from '../../helpers/postgres.ts';
import { until } from '../../helpers/wait.ts';

/** Longer than a test may take. */
const WAIT_MS = 3_600_000;
const CHECK_EVERY_MS = 1_000;
const CHECK_GAP_MS = 5;
const FULL_SCAN_EVERY_MS = 15_000;

let fresh: FreshDatabase;
const [agentId, webhookId] = [randomUUID(), randomUUID()];
const order = { timeoutMs: WAIT_MS, inVain: false };

beforeAll(async () => {
  fresh = await freshDatabase();
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
  holdTimers(CHECK_EVERY_MS);
  const waiters = new ClaimWaiters(fresh.database, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const commitsBefore = waiters.commits;
  waiters.committed();
  await waiters.wait(agentId, { timeoutMs: WAIT_MS, commitsBefore, inVain: false }, () => {});
});

test('the first commit after a pause is looked at in the next turn, without a timer', async () => {
  holdTimers(0);
  const waiters = new ClaimWaiters(fresh.database, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const woken = waiters.wait(agentId, { timeoutMs: WAIT_MS, commitsBefore: waiters.commits, inVain: false }, () => {});
  waiters.committed();
  await woken;
});

test('an agent that alone had work after the last two commits is woken by the next without a query, until a claim finds nothing', async () => {
  holdTimers(CHECK_EVERY_MS);
  let queries = 0;
  const query: Database['query'] = (statement) => {
    queries++;
    return fresh.database.query(statement);
  };
  const waiters = new ClaimWaiters({ ...fresh.database, query }, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const woken = async (inVain = false) => {
    const waiting = waiters.wait(agentId, { timeoutMs: WAIT_MS, commitsBefore: waiters.commits, inVain }, () => {});
    waiters.committed();
    await waiting;
    return queries;
  };
  expect(await woken()).toBe(1);
  expect(await woken()).toBe(2);
  expect(await woken()).toBe(2);
  expect(await woken(true)).toBe(3);
  expect(await woken()).toBe(4);
  expect(await woken()).toBe(4);
});

test('the claims of the agent that alone had work are woken within the report of a commit, while no other agent waits', async () => {
  const clock = takeClock();
  const waiters = new ClaimWaiters(fresh.database, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const wait = (id = agentId) => waiters.wait(id, { ...order, commitsBefore: waiters.commits }, () => {});
  for (let i = 0; i < 2; i++) {
    const woken = wait();
    waiters.committed();
    await woken;
  }
  clock.forward(CHECK_GAP_MS);
  const woken = wait();
  waiters.committed();
  expect(waiters.size).toBe(0);
  await woken;
  // Within the gap it waits for a check, so that a claim takes the events of several commits.
  const again = wait();
  waiters.committed();
  expect(waiters.size).toBe(1);
  clock.forward(CHECK_GAP_MS);
  void wait(randomUUID());
  waiters.committed();
  expect(waiters.size).toBe(1);
  await again;
});

test('the NOTIFY of a process is not news to its own claims', async () => {
  const waiters = new ClaimWaiters(fresh.database, new ClaimWatermarks());
  const notifier = new CommitNotifier(fresh.database, waiters, () => true);
  const notified: string[] = [];
  let isUp = false;
  const listener = new ChangeListener(fresh.conninfo, {
    change: async () => {},
    arrived: (by) => notified.push(by),
    alive: () => {},
    lost: async () => {},
    up: () => {
      isUp = true;
    },
    down: () => {},
  });
  onTestFinished(() => listener.stop());
  listener.start();
  await until(() => isUp);
  notifier.committed();
  notifier.stored(webhookId);
  await until(() => notified.length > 0);
  expect(notified[0]).toMatch(new RegExp(`^[^ ]+ ${webhookId}$`));
  const { commits } = waiters;
  notifier.arrived(notified[0]!);
  expect(waiters.commits).toBe(commits);
  notifier.arrived(`another ${webhookId}`);
  expect(waiters.commits).toBe(commits + 1);
});

test('deliveries below the watermark are not queried, except once in 15 seconds; then the next claim queries all', async () => {
  const clock = takeClock();
  // The first query ignores the watermarks, and runs before the watermark is learned.
  clock.forward(FULL_SCAN_EVERY_MS);
  const watermarks = new ClaimWatermarks();
  let looks = 0;
  const query: Database['query'] = async (statement) => {
    const rows = await fresh.database.query(statement);
    looks++;
    return rows as never;
  };
  const waiters = new ClaimWaiters({ ...fresh.database, query }, watermarks);
  onTestFinished(() => waiters.close());
  const waiting = () => {
    const woken = waiters.wait(agentId, { ...order, commitsBefore: waiters.commits }, () => {});
    clock.forward(CHECK_EVERY_MS);
    return woken;
  };
  await waiting();

  watermarks.learn(agentId, Date.now(), performance.now());
  const woken = waiting();
  const before = looks;
  await until(() => looks > before);
  expect(waiters.size).toBe(1);

  clock.forward(FULL_SCAN_EVERY_MS);
  await woken;
  expect(watermarks.forClaim(agentId, performance.now())).toBe('-infinity');
});

/** Waiters whose statements are recorded: their names, and the first value of each. */
function recordedWaiters() {
  holdTimers(CHECK_EVERY_MS);
  const asked: unknown[] = [];
  const query: Database['query'] = async (statement) => {
    asked.push([statement.name, statement.values![0]]);
    return fresh.database.query(statement);
  };
  const waiters = new ClaimWaiters({ ...fresh.database, query }, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const wait = (id: string) => waiters.wait(id, { ...order, commitsBefore: waiters.commits }, () => {});
  const commit = (id: string) => {
    waiters.concerns(id);
    waiters.committed(false);
  };
  return { asked, waiters, wait, commit };
}

test('a commit asks only for the waiting agents that are subscribed to its webhooks, and once a second who is', async () => {
  const { asked, waiters, wait, commit } = recordedWaiters();
  for (let i = 0; i < 10; i++) void wait(randomUUID());
  const woken = wait(agentId);
  commit(webhookId);
  await woken;
  const again = wait(agentId);
  commit(webhookId);
  await again;
  expect(asked).toEqual([
    ['read-subscribers', `{${webhookId}}`],
    ['agents-with-work', `{${agentId}}`],
    ['agents-with-work', `{${agentId}}`],
  ]);
  expect(waiters.size).toBe(10);
});

test('a commit that concerns no waiting agent asks for none', async () => {
  const { asked, waiters, wait, commit } = recordedWaiters();
  for (let i = 0; i < 10; i++) void wait(randomUUID());
  const woken = wait(agentId);
  const other = randomUUID();
  commit(other);
  await until(() => asked.length > 0);
  commit(other);
  commit(webhookId);
  await woken;
  expect(asked).toEqual([
    ['read-subscribers', `{${other}}`],
    ['read-subscribers', `{${webhookId}}`],
    ['agents-with-work', `{${agentId}}`],
  ]);
  expect(waiters.size).toBe(10);
});

test('an agent that has room again is asked for itself', async () => {
  const { asked, wait, commit } = recordedWaiters();
  void wait(randomUUID());
  const woken = wait(agentId);
  commit(agentId);
  await woken;
  expect(asked).toEqual([['agents-with-work', `{${agentId}}`]]);
});

test('a commit without its webhooks asks for all waiting agents', async () => {
  const { waiters, wait } = recordedWaiters();
  for (let i = 0; i < 10; i++) void wait(randomUUID());
  const woken = wait(agentId);
  waiters.committed();
  await woken;
  expect(waiters.size).toBe(10);
});

test('a query for all waiting agents holds up no query for those of a commit', async () => {
  holdTimers(CHECK_EVERY_MS);
  let answerAll = () => {};
  const held = new Promise<void>((resolve) => {
    answerAll = resolve;
  });
  let asksAll = false;
  const query: Database['query'] = async (statement) => {
    if (statement.name === 'agents-with-work' && statement.values![0] !== `{${agentId}}`) {
      asksAll = true;
      await held;
    }
    return fresh.database.query(statement);
  };
  const waiters = new ClaimWaiters({ ...fresh.database, query }, new ClaimWatermarks());
  onTestFinished(() => waiters.close());
  const wait = (id: string) => waiters.wait(id, { ...order, commitsBefore: waiters.commits }, () => {});
  for (let i = 0; i < 101; i++) void wait(randomUUID());
  waiters.committed();
  await until(() => asksAll);
  const woken = wait(agentId);
  waiters.concerns(webhookId);
  waiters.committed(false);
  await woken;
  expect(waiters.size).toBe(101);
  answerAll();
});
