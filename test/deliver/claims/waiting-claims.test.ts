import { randomUUID } from 'node:crypto';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { CommitNotifier } from '../../../server/deliver/claims/commit-notifier.ts';
import { ClaimMarks } from '../../../server/deliver/claims/marks.ts';
import { WaitingClaims } from '../../../server/deliver/claims/waiting-claims.ts';
import { ChangeListener } from '../../../server/store/connect/listen.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import { uuidAt } from '../../../server/store/ids.ts';
import { holdTimers } from '../../helpers/clock.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { shared } from '../../helpers/shared.ts';
import { gate, until } from '../../helpers/wait.ts';

/** Longer than a test may take. */
const WAIT_MS = 3_600_000;
const LOOK_EVERY_MS = 1_000;

const fresh = shared(freshDatabase);
/** Subscribed to the webhook, with a delivery. */
const [agentId, webhookId] = [randomUUID(), randomUUID()];

beforeAll(async () => {
  await fresh.sql(`insert into webhooks (id, name) values ($1, 'a')`, webhookId);
  await fresh.sql(
    `insert into agents (id, name, lookup_id, secret_hash) values ($1, 'a', 'abcdefghijkl', sha256(''))`,
    agentId,
  );
  await fresh.sql('insert into subscriptions values ($1, $2)', webhookId, agentId);
  const text =
    'insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes) values ($1, $2, $3, $1, now(), 1)';
  await fresh.sql(text, uuidAt(Date.now()), webhookId, agentId);
});

/** Waiting claims whose statements are recorded: their names, and the first value of each. No look at all agents runs. */
function recorded(beforeQuery: (agents: unknown) => Promise<void> = async () => {}) {
  holdTimers(LOOK_EVERY_MS);
  const asked: unknown[] = [];
  const query: Database['query'] = async (statement) => {
    asked.push([statement.name, statement.values![0]]);
    await beforeQuery(statement.values![0]);
    return fresh.database.query(statement);
  };
  const waiting = new WaitingClaims({ ...fresh.database, query }, new ClaimMarks());
  onTestFinished(() => waiting.close());
  const wait = (id: string, maxLeased: number | null = null) => {
    const place = waiting.join({ id, maxLeased, paused: false });
    return place.wait(WAIT_MS, () => {}).finally(() => place.leave());
  };
  const others = () => {
    for (let i = 0; i < 10; i++) void wait(randomUUID());
  };
  return { asked, waiting, wait, others };
}

test('a commit wakes the agents that are subscribed to its webhooks, which are read once, and no others', async () => {
  const { asked, waiting, wait, others } = recorded();
  others();
  for (let i = 0; i < 2; i++) {
    const woken = wait(agentId);
    waiting.concerns(webhookId);
    await woken;
  }
  waiting.concerns(randomUUID());
  await until(() => asked.length === 2);
  expect(asked[0]).toEqual(['read-subscribers', `{${webhookId}}`]);
  expect(waiting.size).toBe(10);
});

test('a commit during a round ends the wait that follows it, and only this one', async () => {
  const { waiting } = recorded();
  const place = waiting.join({ id: agentId, maxLeased: null, paused: false });
  waiting.concerns(agentId);
  await until(async () => {
    let isWoken = true;
    await place.wait(WAIT_MS, (end) => {
      isWoken = false;
      end();
    });
    return isWoken;
  });
  let isGivenUp = false;
  await place.wait(WAIT_MS, (end) => {
    isGivenUp = true;
    end();
  });
  expect([isGivenUp, waiting.size]).toEqual([true, 0]);
});

test('an agent with max_leased is woken when a query shows that it has work and room', async () => {
  const { asked, waiting, wait, others } = recorded();
  others();
  const woken = wait(agentId, 5);
  const idle = randomUUID();
  void wait(idle, 5);
  waiting.concerns(agentId);
  waiting.concerns(idle);
  await woken;
  expect(asked).toEqual([['agents-with-work', `{${agentId},${idle}}`]]);
  expect(waiting.size).toBe(11);
});

test('a commit without its webhooks, or with too many, looks for all waiting agents', async () => {
  const { asked, waiting, wait, others } = recorded();
  others();
  for (const commit of [
    () => waiting.concernsAll(),
    () => {
      for (let i = 0; i <= 1_000; i++) waiting.concerns(randomUUID());
    },
  ]) {
    asked.length = 0;
    const woken = wait(agentId);
    commit();
    await woken;
    expect(asked).toContainEqual(['agents-with-work', expect.stringContaining(agentId)]);
    expect(waiting.size).toBe(10);
  }
});

test('a look at all waiting agents holds up no commit', async () => {
  const { opened: held, open: answer } = gate();
  const { asked, waiting, wait, others } = recorded((agents) =>
    String(agents).includes(',') ? held : Promise.resolve(),
  );
  others();
  waiting.concernsAll();
  await until(() => asked.length === 1);
  const woken = wait(agentId);
  waiting.concerns(webhookId);
  await woken;
  expect(waiting.size).toBe(10);
  answer();
});

test('the NOTIFY of a process names its webhooks, and is not news to its own claims', async () => {
  const { waiting, wait } = recorded();
  const notifier = new CommitNotifier(fresh.database, waiting, () => true);
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
  notifier.concerns(webhookId);
  await until(() => notified.length > 0);
  expect(notified[0]).toMatch(new RegExp(`^[^ ]+ ${webhookId}$`));
  const woken = wait(agentId);
  notifier.arrived(notified[0]!);
  expect(waiting.size).toBe(1);
  notifier.arrived(`another ${webhookId}`);
  await woken;
});
