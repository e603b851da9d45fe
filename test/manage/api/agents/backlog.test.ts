/**
 * What waits for an agent over time, how fast it comes and ends, and when the agent will have caught up; and what a revoked agent leaves:
 * dismissed, or moved to another agent.
 */
import { expect, test } from 'vitest';
import { forecast, pointsOf } from '../../../../server/manage/api/agents/backlog.ts';
import { describeAlert } from '../../../../server/manage/conditions/describe.ts';
import { advisoryLocks } from '../../../../server/store/advisory-locks.ts';
import { addAgentHistory } from '../../../../server/store/queries/agents/history.ts';
import { addHistory } from '../../../../server/store/queries/webhooks/history.ts';
import { addAgent, send, startAgentApp, type TestAgent } from '../../../helpers/agents.ts';
import { hold } from '../../../helpers/hold.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startAgentApp);
const NOW_MS = Date.UTC(2026, 0, 31, 12, 5, 0);
const at = (secondsAgo: number) => new Date(NOW_MS - secondsAgo * 1_000).toISOString();

const [past, risen] = [
  [300, 60, 300],
  [300, 300, 0],
];
test.each([
  ['caught up by the difference of the rates', 600, [past, [60, 0, 300]], 600 / (2 - 0.2)],
  ['by the rate since it was started', 600, [risen, [60, 0, 120]], 600 / (2 - 1)],
  ['never when more comes', 10, [[300, 900, 600]], null],
  ['never when nothing ends', 10, [[300, 0, 0]], null],
  ['not when nothing waits', 0, [[300, 0, 600]], null],
  ['not in more than 30 days', 1e9, [[300, 0, 600]], null],
] as [string, number, number[][], number | null][])('a backlog is %s', (_what, pending, spans, seconds) => {
  const minutes = spans.map(([ago, came, ended]) => ({ at: at(ago!), came: came!, ended: ended! }));
  const { caught_up_at } = forecast(pending, minutes, NOW_MS - 300_000, NOW_MS);
  expect(caught_up_at).toBe(seconds === null ? null : new Date(NOW_MS + seconds * 1_000).toISOString());
});

test.each([
  ['never below zero', 50, 0, [0, 0, 20, 50]],
  // Events before it were replayed: the agent has them since.
  ['zero before the agent was created', 500, NOW_MS - 1_000_000, [0, 0, 470, 500]],
])('the points are computed back from now, %s', (_what, pending, createdMs, last) => {
  const points = pointsOf(
    pending,
    [
      { at: at(300), came: 40, ended: 10 },
      { at: at(1_200), came: 100, ended: 0 },
    ],
    NOW_MS,
    createdMs,
  );
  expect(points).toHaveLength(97);
  expect(points.slice(-4).map(({ pending }) => pending)).toEqual(last);
});

test('counts what came for its webhooks since it is subscribed, and what ended', async () => {
  const viewer = await addPerson(app, 'viewer');
  const webhook = await app.addWebhook();
  const nowMs = Date.now();
  await addHistory(app.database, [{ webhookId: webhook.id, minuteMs: nowMs - 7_200_000, accepted: 1_000 }]);
  const agent = await addAgent(app, [webhook]);
  await send(webhook);
  await addHistory(app.database, [{ webhookId: webhook.id, minuteMs: nowMs, accepted: 40 }]);
  await addAgentHistory(app.database, [{ agentId: agent.id, atMs: nowMs, acknowledged: 90, failed: 0, ended: 90 }]);
  const { body } = await viewer.api('GET', `/api/v1/agents/${agent.id}/backlog`);
  expect(body).toMatchObject({ pending: 1, leased: 0, dead: 0, exact: true, caught_up_at: expect.any(String) });
  expect(body.out_per_second).toBeGreaterThan(body.in_per_second);
  expect(body.points.at(-1).pending).toBe(1);
  const before = body.points.filter(({ at }: { at: string }) => Date.parse(at) <= nowMs);
  expect(before.map(({ pending }: { pending: number }) => pending)).toEqual(before.map(() => 0));
  expect(await viewer.page(`/agents/${agent.id}`)).toMatch(/<b>1<\/b> delivery waits[\s\S]*Caught up at <time/);
});

const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook());

/** A revoked agent with a pending and a leased delivery. */
async function revoked(): Promise<TestAgent> {
  const agent = await addAgent(app, [webhook]);
  await send(webhook, '{"first":1}');
  await agent.claimOne();
  await send(webhook, '{"second":2}');
  await operator.api('DELETE', `/api/v1/agents/${agent.id}`);
  return agent;
}
const settle = (agent: TestAgent, to: string | null) =>
  operator.api('POST', `/api/v1/agents/${agent.id}/undelivered`, { to_agent_id: to });
const ended = {
  id: '01900000-0000-7000-8000-000000000000',
  condition: 'pending',
  subject_id: '5f0622c1-6387-443d-bce0-39e03fd57926',
  subject_name: 'shop',
  since: '2026-11-25T05:00:00.000Z',
  began_at: '2026-11-25T05:00:00.000Z',
  ended_at: '2026-11-25T06:00:00.000Z',
  value: 600,
  threshold: 300,
} as const;
const issueOf = async ({ id }: TestAgent) =>
  (await operator.api('GET', `/api/v1/issues?kind=undelivered&subject_id=${id}`)).body.items[0];

test('a revoked agent with unfinished deliveries is an issue, which is resolved when they are dismissed', async () => {
  const agent = await revoked();
  expect((await issueOf(agent)).title).toContain('is revoked, and 2 deliveries to it are undelivered.');
  const { status, body } = await settle(agent, null);
  expect([status, body.settled, body.more]).toEqual([200, 2, false]);
  expect(await issueOf(agent)).toMatchObject({ state: 'resolved', count: 2 });
  const undone = await operator.api('POST', '/api/v1/deliveries/undo', { action_id: body.action_id });
  expect(undone.body).toEqual({ restored: 2, others: 0 });
});

test('an alert that ends because its agent was revoked says what is undelivered', () => {
  const textOf = (undelivered: number | null) => describeAlert({ ...ended, undelivered }, 'http://weir').text;
  expect(textOf(12_950)).toBe('Agent shop is revoked, 12,950 deliveries undelivered. The alert lasted 1 hour.');
  expect(textOf(null)).toContain('no longer wait too long');
});

test('another agent gets them beyond its subscriptions, once for each event', async () => {
  const agent = await revoked();
  const other = await addAgent(app);
  expect((await settle(agent, other.id)).body).toEqual({ settled: 2, more: false, action_id: null });
  const bodies = (await other.claim({ max: 10 })).map(({ event }) => event.body);
  expect(bodies.sort()).toEqual(['{"first":1}', '{"second":2}']);
  const [entry] = (await (await addPerson(app, 'administrator')).api('GET', `/api/v1/audit?target_id=${agent.id}`)).body
    .items;
  expect([entry.action, entry.after.moved]).toEqual(['delivery.move', 2]);
});

test('an agent that has a delivery of the event does not get a second one', async () => {
  const other = await addAgent(app, [webhook]);
  const agent = await revoked();
  const { settled, action_id } = (await settle(agent, other.id)).body;
  expect([settled, action_id]).toEqual([2, expect.any(String)]);
  expect(await other.claim({ max: 10 })).toHaveLength(2);
});

/** Resolves when a statement waits for a lock. */
const lockAwaited = () =>
  until(
    async () =>
      (await app.sql(`select from pg_stat_activity where datname = current_database() and wait_event_type = 'Lock'`))
        .length > 0,
  );

test('an agent that is being restored keeps what waits for it', async () => {
  const agent = await revoked();
  const restore = await hold(
    app.conninfo,
    `with locked as materialized (select pg_advisory_xact_lock(${advisoryLocks.agents}))
     update agents set revoked_at = null from locked where id = '${agent.id}'`,
  );
  const settling = settle(agent, null);
  await Promise.race([settling, lockAwaited()]);
  await restore();
  expect((await settling).body.code).toBe('agent_active');
  const states = await app.sql(`select state from deliveries where agent_id = '${agent.id}' order by id`);
  expect(states).toEqual([{ state: 'leased' }, { state: 'pending' }]);
});

test('an agent that is being revoked gets nothing of another one', async () => {
  const agent = await revoked();
  const other = await addAgent(app);
  const revoke = await hold(app.conninfo, `update agents set revoked_at = now() where id = '${other.id}'`);
  const settling = settle(agent, other.id);
  await Promise.race([settling, lockAwaited()]);
  await revoke();
  expect((await settling).status).toBe(422);
});

test.each([
  ['the agent is not revoked', 409, 'agent_active'],
  ['the other agent is revoked', 422, 'invalid_request'],
])('is refused when %s', async (what, status, code) => {
  const [one, other] = [await addAgent(app), await addAgent(app)];
  const last = what === 'the agent is not revoked' ? other : one;
  await operator.api('DELETE', `/api/v1/agents/${last.id}`);
  if (last === one) await operator.api('DELETE', `/api/v1/agents/${other.id}`);
  const answer = await settle(one, last === one ? other.id : null);
  expect([answer.status, answer.body.code]).toEqual([status, code]);
});
