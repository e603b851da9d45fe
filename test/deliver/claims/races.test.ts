/** Many concurrent consumers: each delivery is leased by one of them, and slow ones delay no others. */
import { expect, test } from 'vitest';
import { actOnOne } from '../../../server/manage/api/deliveries/delivery-changes.ts';
import { systemActor } from '../../../server/store/audit/record.ts';
import { openDatabase, type Query } from '../../../server/store/connect/pool.ts';
import {
  addAgent,
  agentsOf,
  type Delivery,
  letPass,
  send,
  startAgentApp,
  startSecondApp,
  storeEvents,
  subscribed,
  type TestAgent,
} from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const app = shared(startAgentApp);
const second = shared(() => startSecondApp(app));

/** Eight clients of one agent at two processes; each claims until all together have `wanted`. */
async function claimAll(
  agent: TestAgent,
  wanted: number,
  ack: 'never' | 'after the claim' | 'with the next claim',
): Promise<{ ids: string[]; empty: number }> {
  const ids: string[] = [];
  let empty = 0;
  const client = async (place: TestAgent, max: number) => {
    let held: string[] = [];
    while (ids.length < wanted) {
      const order = { max, lease_seconds: 3600, ...(held.length > 0 && { ack: held }) };
      const { deliveries, settled } = (await place.post('claim', order)).body;
      if (held.length > 0) expect(settled).toEqual({ done: held, gone: [] });
      if (deliveries.length === 0) empty++;
      ids.push(...(deliveries as Delivery[]).map(({ event }) => event.id));
      const receipts = (deliveries as Delivery[]).map(({ receipt }) => receipt);
      held = ack === 'with the next claim' ? receipts : [];
      if (ack === 'after the claim' && receipts.length > 0) expect((await place.ack(receipts)).gone).toEqual([]);
    }
    if (held.length > 0) expect((await place.ack(held)).gone).toEqual([]);
  };
  const places = [agent, agent.at(second)];
  await Promise.all(Array.from({ length: 8 }, (_, i) => client(places[i % 2]!, [7, 50, 100, 33][i % 4]!)));
  return { ids, empty };
}

test.each(['never', 'after the claim', 'with the next claim'] as const)(
  '8 clients claim 5,000 deliveries without loss or repetition, and acknowledge: %s',
  async (ack) => {
    const webhooks = await Promise.all([app.addWebhook(), app.addWebhook(), app.addWebhook()]);
    const agent = await addAgent(app, webhooks);
    const stored = (
      await Promise.all(webhooks.map(({ id }, i) => storeEvents(app.database, id, [4000, 900, 100][i]!)))
    ).flat();
    const { ids } = await claimAll(agent, 5000, ack);
    expect(ids).toHaveLength(5000);
    expect(new Set(ids)).toEqual(new Set(stored));
    await letPass(app.database, 60);
    expect(await agent.claim()).toEqual([]);
  },
);

test('while events arrive, 8 clients receive each of them once', async () => {
  const { webhook, agent } = await subscribed(app);
  const claiming = claimAll(agent, 1200, 'after the claim');
  const sent: string[] = [];
  const sender = async () => {
    for (let i = 0; i < 100; i++) sent.push(await send(webhook));
  };
  await Promise.all(Array.from({ length: 12 }, sender));
  const { ids } = await claiming;
  expect(ids).toHaveLength(1200);
  expect(new Set(ids)).toEqual(new Set(sent));
});

test('an agent that never acknowledges does not delay other agents', async () => {
  const webhook = await app.addWebhook();
  const [idle, busy] = [await addAgent(app, [webhook]), await addAgent(app, [webhook])];
  const stored = await storeEvents(app.database, webhook.id, 3000);
  while ((await idle.claim({ lease_seconds: 3600 })).length > 0);
  const { ids } = await claimAll(busy, 3000, 'after the claim');
  expect(new Set(ids)).toEqual(new Set(stored));
  await letPass(app.database, 3600);
  expect((await idle.claim()).length).toBe(1000);
  expect(await busy.claim()).toEqual([]);
});

test('consumers that settle, extend and lose the same leases never deadlock', async () => {
  const { webhook, agent } = await subscribed(app);
  await storeEvents(app.database, webhook.id, 300);
  const receipts = (await agent.claim()).map(({ receipt }) => receipt);
  const shuffled = () => [...receipts].sort(() => Math.random() - 0.5);
  const work = Array.from({ length: 24 }, (_, i) =>
    [
      () => agent.extend(shuffled(), 60),
      () => agent.at(second).nack(shuffled(), { delay_seconds: 0 }),
      () => agent.ack(shuffled()),
      () =>
        agent
          .at(second)
          .claim()
          .then(() => ({ done: [], gone: [] })),
    ][i % 4]!(),
  );
  for (const { done, gone } of await Promise.all(work)) expect([0, 300]).toContain(done.length + gone.length);
});

/** Statements with this text that wait for another transaction. */
const waits = (text = 'update deliveries') =>
  app.sql(
    `select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock' and query like '%' || $1 || '%'`,
    text,
  );

/** Sets the state of a delivery, which moves its row, while `work` waits for that row. */
async function movedDuring<T>(id: string, state: 'done' | 'pending', work: () => Promise<T>): Promise<T> {
  const { underWay } = await app.database.transaction(async (query) => {
    await query({
      text: `update deliveries set state = $2, finished_at = case when $2 = 'done' then now() end where id = $1`,
      values: [id, state],
    });
    const underWay = work();
    await until(async () => (await waits()).length === 1);
    return { underWay };
  });
  return underWay;
}

test.each([
  ['an acknowledgement', 'done', null, ({ agent, receipt }: Leased) => agent.ack([receipt])],
  ['an extension under max_leased', 'gone', 1, ({ agent, receipt }: Leased) => agent.extend([receipt], 60)],
] as const)(
  '%s that waited for an acknowledgement of the same delivery reports it as %s',
  async (_, as, max_leased, settle) => {
    const { webhook, agent } = await subscribed(app);
    made(await agentsOf(app).update(agent.id, { max_leased }));
    await send(webhook);
    const { id, receipt } = await agent.claimOne();
    const settled = await movedDuring(id, 'done', () => settle({ agent, receipt }));
    expect(settled).toEqual({ done: [], gone: [], [as]: [receipt] });
  },
);

interface Leased {
  agent: TestAgent;
  receipt: string;
}

test('a replay that waited for another one of the same delivery is refused', async () => {
  const { webhook, agent } = await subscribed(app);
  await send(webhook);
  const { id, receipt } = await agent.claimOne();
  await agent.ack([receipt]);
  const database = await ofTest(openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'weir-test' }));
  const replayed = await movedDuring(id, 'pending', () => actOnOne(database, systemActor, 'replay', id));
  expect(replayed).toEqual({ kind: 'problem', code: 'delivery_unfinished' });
});

test('an acknowledgement that Postgres aborts in a deadlock is retried', async () => {
  const { webhook, agent } = await subscribed(app);
  await storeEvents(app.database, webhook.id, 3);
  const claimed = (await agent.claim()).toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const [first, middle, last] = claimed.map(({ id }) => id) as [string, string, string];
  const lock = (query: Query, id: string) =>
    query({ text: 'select from deliveries where id = $1 for update', values: [id] });
  const third = await ofTest(openDatabase(app.conninfo, { connectionsMax: 1, applicationName: 'weir-test' }));
  // The acknowledgement completes the deadlock, and only its session checks for one. So Postgres aborts it, however slow the machine is.
  const acknowledged = await app.database.transaction(async (query) => {
    await query({ text: `set local deadlock_timeout = '10min'` });
    await lock(query, last);
    const { underWay, first: firstLocked } = await third.transaction(async (queryThird) => {
      await lock(queryThird, middle);
      const underWay = agent.ack(claimed.map(({ receipt }) => receipt));
      await until(async () => (await waits()).length === 1);
      const firstLocked = lock(query, first);
      await until(async () => (await waits('for update')).length === 1);
      return { underWay, first: firstLocked };
    });
    await firstLocked;
    return { underWay };
  });
  expect((await acknowledged.underWay).done).toHaveLength(3);
});

test('a change of the agents of a webhook that Postgres aborts in a deadlock with an extension is repeated', async () => {
  const { webhook, agent } = await subscribed(app);
  made(await agentsOf(app).subscribe(agent.id, webhook.id, { order_by: '/key' }));
  made(await agentsOf(app).update(agent.id, { max_leased: 2 }));
  for (const key of ['a', 'b']) await send(webhook, JSON.stringify({ key }));
  const leased = (await agent.claim()).toSorted((one, other) => (one.id < other.id ? -1 : 1));
  const receipts = leased.map(({ receipt }) => receipt);
  const operator = await addPerson(app, 'operator');
  const { extending, changing } = await app.database.transaction(async (query) => {
    await query({ text: 'select from deliveries where id = $1 for update', values: [leased[0]!.id] });
    // Holds the agent and waits for the first delivery; the change holds the second one and waits for the agent.
    const extending = agent.extend(receipts, 60);
    await until(async () => (await waits()).length === 1);
    const changing = operator.api('PATCH', `/api/v1/webhooks/${webhook.id}`, { agent_ids: [] });
    await until(async () => (await waits('update agents')).length === 1);
    return { extending, changing };
  });
  expect((await changing).status).toBe(200);
  expect((await extending).done.toSorted()).toEqual(receipts.toSorted());
});
