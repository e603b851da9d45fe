import { randomUUID } from 'node:crypto';
import { expect, test, vi } from 'vitest';
import { HOUR_MS } from '../../../../server/base/time/durations.ts';
import { LastSeen, WRITTEN_MAX } from '../../../../server/manage/auth/agent.ts';
import { recordAgentsSeen } from '../../../../server/store/queries/agents/active-agents.ts';
import { readDeliveryDepths } from '../../../../server/store/queries/deliveries/counts.ts';
import { addAgent, send, signIn, startAgentApp, type TestAgent } from '../../../helpers/agents.ts';
import { fakeTimers } from '../../../helpers/clock.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startAgentApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const webhook = shared(() => app.addWebhook());

const PATH = '/api/v1/agents/activity';
const of = async (...ids: string[]) => (await viewer.api('GET', `${PATH}?agent_ids=${ids.join(',')}`)).body.items;
const seen = (agent: TestAgent) => until(async () => (await of(agent.id))[0].last_seen_at !== null);

test('an agent without requests has no last request and no waiting delivery', async () => {
  const { id } = (await (await addPerson(app, 'operator')).api('POST', '/api/v1/agents', { name: 'new' })).body;
  expect(await of(id)).toEqual([
    {
      agent_id: id,
      last_seen_at: null,
      last_seen_from: null,
      previous_credential_used_at: null,
      waiting_since: null,
      working: false,
      paused: false,
      paused_at: null,
      dead: 0,
      filters: [],
    },
  ]);
});

test('a request sets the last request of an agent without changing its ETag', async () => {
  const agent = await addAgent(app);
  const tag = async () => (await viewer.api('GET', `/api/v1/agents/${agent.id}`)).headers.get('etag');
  const before = await tag();
  await agent.claim();
  await seen(agent);
  const [{ last_seen_at: at, last_seen_from: from }] = await of(agent.id);
  expect(Date.now() - Date.parse(at)).toBeLessThan(60_000);
  expect(from).toBe('127.0.0.1');
  expect(await tag()).toBe(before);
});

test('the waiting time starts when the oldest delivery is claimable: not while it is leased, later after a nack, never when dead', async () => {
  const agent = await addAgent(app, [webhook]);
  const waitingSince = async () => (await of(agent.id))[0].waiting_since;
  await send(webhook, '{"first":1}');
  const first = await waitingSince();
  expect(Math.abs(Date.now() - Date.parse(first))).toBeLessThan(60_000);
  await send(webhook, '{"second":2}');
  expect(await waitingSince()).toBe(first);

  const [delivery, other] = await agent.claim({ max: 2 });
  expect((await of(agent.id))[0]).toMatchObject({ waiting_since: null, working: true });
  await agent.nack([other!.receipt], { delay_seconds: 60 });
  expect(await waitingSince()).toBeNull();
  await agent.nack([delivery!.receipt], { delay_seconds: 0 });
  expect(Date.parse(await waitingSince())).toBeGreaterThan(Date.parse(first));

  await app.sql(`update deliveries set state = 'dead', finished_at = now() where id = $1`, delivery!.id);
  expect((await of(agent.id))[0]).toMatchObject({ waiting_since: null, dead: 1 });
});

test('a delivery that a filter has yet to judge does not wait, one that it let through does', async () => {
  const agent = await addAgent(app, [webhook]);
  const operator = await addPerson(app, 'operator');
  const path = `/api/v1/agents/${agent.id}/subscriptions/${webhook.id}`;
  expect((await operator.api('PUT', path, { filter: 'bytes < 15' })).status).toBe(200);
  await send(webhook, '{"over the limit":1}');
  await send(webhook, '{"let":1}');
  const waits = async () => {
    const { agents } = await readDeliveryDepths(app.database);
    const depth = agents.find(({ agentId }) => agentId === agent.id)!;
    return [(await of(agent.id))[0].waiting_since !== null, depth.waitingSinceMs !== null, depth.pending];
  };
  expect(await waits()).toEqual([false, false, 2]);
  const [delivery] = await agent.claim({ max: 2 });
  await agent.nack([delivery!.receipt], { delay_seconds: 0 });
  expect(await waits()).toEqual([true, true, 1]);
});

test('without ids, the list has all active agents, newest first', async () => {
  const [first, second, revoked] = [await addAgent(app), await addAgent(app), await addAgent(app)];
  await (await addPerson(app, 'operator')).api('DELETE', `/api/v1/agents/${revoked.id}`);
  const { items } = (await viewer.api('GET', PATH)).body;
  const ids = items.map((one: { agent_id: string }) => one.agent_id);
  expect(ids.slice(0, 2)).toEqual([second.id, first.id]);
  expect(ids).not.toContain(revoked.id);
});

test('unknown agents are left out', async () => {
  const agent = await addAgent(app);
  expect(await of(randomUUID(), agent.id)).toEqual([expect.objectContaining({ agent_id: agent.id })]);
});

test.each(['?agent_ids=', '?agent_ids=somebody', `?agent_ids=${Array(201).fill(randomUUID()).join(',')}`])(
  'invalid ids are refused: %.30s',
  async (query) => {
    expect((await viewer.api('GET', PATH + query)).status).toBe(422);
  },
);

test('the last request is written at most once a minute, and retried after a failed write', async () => {
  const { id } = await addAgent(app);
  const writes: unknown[] = [];
  let away = true;
  const lastSeen = new LastSeen({
    ...app.database,
    query: (statement) => {
      writes.push(statement.values![1]);
      return away ? Promise.reject(new Error('the database is away')) : app.database.query(statement);
    },
  });
  lastSeen.record(id, '192.0.2.1', 0);
  away = false;
  await until(() => {
    lastSeen.record(id, '192.0.2.2', 1);
    return writes.length === 2;
  });
  // The next write runs on another connection, and could begin before this one.
  await until(async () => (await of(id))[0].last_seen_from === '192.0.2.2');
  lastSeen.record(id, '192.0.2.3', 60_000);
  expect(writes).toHaveLength(2);
  lastSeen.record(id, '192.0.2.4', 60_001);
  await until(async () => (await of(id))[0].last_seen_from === '192.0.2.4');
  expect(writes).toEqual(['{192.0.2.1}', '{192.0.2.2}', '{192.0.2.4}']);
});

test('the times of writes are bounded, whatever the number of temporary agents', async () => {
  const written: string[] = [];
  const lastSeen = new LastSeen({
    ...app.database,
    query: async (statement) => {
      written.push(...String(statement.values![0]).slice(1, -1).split(','));
      return [];
    },
  });
  const first = randomUUID();
  lastSeen.record(first, '192.0.2.1', 0);
  for (let i = 1; i < WRITTEN_MAX; i++) lastSeen.record(randomUUID(), '192.0.2.1', 0);
  lastSeen.record(first, '192.0.2.1', 1);
  lastSeen.record(randomUUID(), '192.0.2.1', 1);
  await until(() => written.length === WRITTEN_MAX + 1);
  lastSeen.record(first, '192.0.2.1', 2);
  await until(() => written.length > WRITTEN_MAX + 1);
  expect(written.at(-1)).toBe(first);
});

test('agents that are seen during a write share the next one', async () => {
  const agents = [await addAgent(app), await addAgent(app), await addAgent(app)];
  let writes = 0;
  const lastSeen = new LastSeen({
    ...app.database,
    query: (statement) => {
      writes++;
      return app.database.query(statement);
    },
  });
  // Their sign-ins are recorded in the background.
  for (const agent of agents) await seen(agent);
  for (const [i, { id }] of agents.entries()) lastSeen.record(id, `2001:db8::${i + 1}`, 0);
  for (const [i, { id }] of agents.entries())
    await until(async () => (await of(id))[0].last_seen_from === `2001:db8::${i + 1}`);
  expect(writes).toBe(2);
});

test('the later of two requests that are recorded at once is kept', async () => {
  const { id } = await addAgent(app);
  // Its sign-in is recorded in the background.
  await until(async () => (await of(id))[0].last_seen_at !== null);
  await app.database.transaction(async (query) => {
    await recordAgentsSeen({ query }, new Map([[randomUUID(), '192.0.2.1']]));
    await recordAgentsSeen(app.database, new Map([[id, '192.0.2.2']]));
    // The transaction began before the other request.
    await recordAgentsSeen({ query }, new Map([[id, '192.0.2.1']]));
  });
  expect((await of(id))[0].last_seen_from).toBe('192.0.2.2');
});

test('the last request is written as often after the clock was set back', async () => {
  fakeTimers({ toFake: ['Date', 'performance'] });
  const agent = await addAgent(app);
  await seen(agent);
  await app.sql('update agents set last_seen_at = null');
  vi.setSystemTime(Date.now() - HOUR_MS);
  vi.advanceTimersByTime(60_000);
  await signIn(app, agent.credential);
  await seen(agent);
});
