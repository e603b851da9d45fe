/** Replays of many events by filter, as jobs. */
import { randomUUID } from 'node:crypto';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { restMs } from '../../../server/deliver/replay/run.ts';
import { JOBS_UNFINISHED_MAX } from '../../../server/model/jobs.ts';
import { deleteOldJobs } from '../../../server/store/queries/replays/jobs.ts';
import { addAgent, agentsOf, send, startAgentApp, storeEvents, type TestAgent } from '../../helpers/agents.ts';
import { FAST, HELD, type Runner, startRunner } from '../../helpers/jobs.ts';
import { addPerson } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';

const REPLAY = '/api/v1/events/replay';
/** Events in one transaction of a job. */
const BATCH = 100;

const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
const webhook = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [webhook]));
const stops: (() => Promise<void>)[] = [];

afterEach(async () => {
  await stopAll();
  for (const table of ['jobs', 'deliveries', 'events']) await app.sql(`delete from ${table}`);
});

async function stopAll(): Promise<void> {
  for (const stop of stops.splice(0)) await stop();
}

function start(perSecond: number): Runner {
  const runner = startRunner(app, perSecond);
  stops.push(runner.stop);
  return runner;
}

async function create(input: object = {}): Promise<string> {
  const answer = await operator.api('POST', REPLAY, input);
  expect(answer.status, answer.text).toBe(202);
  expect(answer.headers.get('location')).toBe(`/api/v1/jobs/${answer.body.job_id}`);
  return answer.body.job_id;
}

const show = async (id: string) => (await operator.api('GET', `/api/v1/jobs/${id}`)).body;
const ended = (id: string) =>
  until(async () => {
    const job = await show(id);
    return job.finished_at !== null && job;
  });
const begun = (id: string) => until(async () => (await show(id)).events > 0);

/** Events of the new deliveries to the agent; the first deliveries are deleted before. */
async function replayed(to: TestAgent = agent): Promise<string[]> {
  const rows = await app.sql<{ id: string }>(
    'select event_id as id from deliveries where agent_id = $1 order by available_at, event_id',
    to.id,
  );
  return rows.map(({ id }) => id);
}

/** Stored events without deliveries, oldest first. */
async function storeMany(count: number, ageMs = 60_000): Promise<string[]> {
  const ids = await storeEvents(app.database, webhook.id, count, Date.now() - ageMs);
  await app.sql('delete from deliveries');
  return ids.sort();
}

test('a job replays every event once, oldest first, and none that arrived later', async () => {
  const older = await storeMany(BATCH + 30, 120_000);
  const newer = await storeMany(BATCH + 30);
  const id = await create({ webhook_id: webhook.id });
  expect(await show(id)).toMatchObject({
    kind: 'replay_events',
    state: 'queued',
    filter: { webhook_id: webhook.id },
    progress: 0,
    created_by: { kind: 'token', name: operator.email },
  });
  await send(webhook);
  await app.sql('delete from deliveries');
  const seen = start(FAST);
  expect(await ended(id)).toMatchObject({ state: 'done', progress: 1, events: 260, deliveries: 260, reason: null });
  expect(await replayed()).toEqual([...older, ...newer]);
  expect(seen).toMatchObject({ events: 260, lines: ['job_done'] });
  const { body } = await operator.api('GET', '/api/v1/jobs');
  expect(body.items).toMatchObject([{ id, state: 'done' }]);
  const entries = await app.sql<{ entry: object }>(
    `select entry from audit_log where entry -> 'target' ->> 'id' = $1 order by number`,
    id,
  );
  expect(entries.map(({ entry }) => entry)).toMatchObject([
    { action: 'job.create', actor: { id: operator.id }, after: { filter: { webhook_id: webhook.id } } },
    { action: 'job.end', actor: { kind: 'system' }, after: { state: 'done', events: 260 } },
  ]);
});

test('the list of jobs refuses the cursor of a deleted job', async () => {
  const older = await create();
  const id = await create();
  const next = () => operator.api('GET', `/api/v1/jobs?cursor=${id}`);
  expect((await next()).body.items).toMatchObject([{ id: older }]);
  await app.sql('delete from jobs where id = $1', id);
  expect(await next()).toMatchObject({ status: 422, body: { errors: [{ parameter: 'cursor' }] } });
});

test('each filter of the list selects the same events', async () => {
  const other = await app.addWebhook({ event_type_from: 'json:/type' });
  await send(webhook, '{"n":1}');
  await send(other, '{"type":"order.created"}');
  await send(other, 'a needle in a body');
  await app.sql(`update deliveries set state = 'done', finished_at = now()`);
  const nextYear = new Date(Date.now() + 31_536_000_000).toISOString();
  // Each filter of the list by itself: manage/api/events/filter.test.ts.
  const filters = [
    [{}, 3],
    [{ webhook_id: other.id, source: '127.0.0.0/8', to: nextYear }, 2],
    [{ type: 'order.created', content_type: 'application/json' }, 1],
    [{ q: 'needle', header: 'content-type: ' }, 1],
    [{ source: '192.0.2.1' }, 0],
    [{ from: nextYear }, 0],
    [{ to: '2020-01-01T00:00:00Z' }, 0],
    [{ content_type: 'image/png' }, 0],
    [{ header: 'x-none: 1' }, 0],
    [{ delivery_state: 'done' }, 1],
  ] as const;
  const jobs: [string, number][] = [];
  for (const [filter, count] of filters) {
    const query = new URLSearchParams(filter as Record<string, string>);
    expect((await operator.api('GET', `/api/v1/events/count?${query}`)).body, `${query}`).toMatchObject({ count });
    jobs.push([await create({ ...filter, agent_ids: [agent.id], beyond_subscriptions: true }), count]);
  }
  start(FAST);
  for (const [id, count] of jobs) expect(await ended(id)).toMatchObject({ state: 'done', events: count });
});

test('sessions that are cut between and inside batches neither skip nor repeat an event', async () => {
  const ids = await storeMany(30 * BATCH);
  const id = await create();
  start(20_000);
  let cut = 0;
  const done = until(async () => (await show(id)).finished_at !== null);
  const cutting = until(async () => {
    const rows = await app.sql(
      `select pg_terminate_backend(pid) from pg_stat_activity where application_name = 'weir-jobs' and datname = current_database()`,
    );
    cut += rows.length;
    return cut >= 4;
  });
  await cutting;
  await done;
  expect(await replayed()).toEqual(ids);
});

test('two installations run a job once', async () => {
  const ids = await storeMany(10 * BATCH);
  const id = await create();
  const runners = [start(FAST), start(FAST)];
  await ended(id);
  expect(await replayed()).toEqual(ids);
  expect(runners.reduce((sum, { events }) => sum + events, 0)).toBe(ids.length);
});

test('a job waits while the database is away, and continues by itself', async () => {
  const ids = await storeMany(3 * BATCH);
  const id = await create();
  start(HELD);
  await begun(id);
  await stopAll();
  await app.cutOff();
  const seen = start(FAST);
  await until(() => seen.lines.includes('jobs_paused'));
  await app.restore();
  expect(await ended(id)).toMatchObject({ state: 'done', events: ids.length });
  expect(await replayed()).toEqual(ids);
});

describe('a filter', () => {
  let picky: TestAgent;
  let event: string;

  beforeEach(async () => {
    const other = await app.addWebhook();
    picky = await addAgent(app, [other]);
    made(await agentsOf(app).subscribe(picky.id, other.id, { filter: 'event_type == "wanted"' }));
    event = await send(other);
    expect(await picky.claim()).toEqual([]);
  });

  test('judges what a job delivers', async () => {
    const id = await create({ agent_ids: [picky.id] });
    start(FAST);
    expect(await ended(id)).toMatchObject({ events: 1, deliveries: 1, beyond_subscriptions: false });
    expect(await picky.claim()).toEqual([]);
  });

  test('does not judge what a job delivers beyond subscriptions', async () => {
    const id = await create({ agent_ids: [picky.id], beyond_subscriptions: true });
    start(FAST);
    expect(await ended(id)).toMatchObject({ events: 1, deliveries: 1, beyond_subscriptions: true });
    expect((await picky.claimOne()).event.id).toBe(event);
  });
});

test('a job for named agents leaves out webhooks to which they are not subscribed', async () => {
  const stranger = await addAgent(app, [await app.addWebhook()]);
  await storeMany(3);
  const id = await create({ agent_ids: [agent.id, stranger.id] });
  start(FAST);
  expect(await ended(id)).toMatchObject({ state: 'done', events: 3, deliveries: 3 });
  expect(await replayed(stranger)).toEqual([]);
});

describe('a running job', () => {
  /** Its first batch is committed. */
  async function held(input: object = {}): Promise<{ id: string; ids: string[] }> {
    const ids = await storeMany(2 * BATCH);
    const id = await create(input);
    start(HELD);
    await begun(id);
    return { id, ids };
  }

  async function goOn(id: string) {
    await stopAll();
    start(FAST);
    return ended(id);
  }

  test('that is cancelled keeps what it has replayed; a job that has ended cannot be cancelled', async () => {
    const { id, ids } = await held();
    const cancelled = await operator.api('POST', `/api/v1/jobs/${id}/cancel`);
    expect(cancelled.body).toMatchObject({ id, state: 'cancelled', events: BATCH });
    await goOn(id);
    expect(await replayed()).toEqual(ids.slice(0, BATCH));
    expect(await operator.api('POST', `/api/v1/jobs/${id}/cancel`)).toMatchObject({
      status: 409,
      body: { code: 'job_finished' },
    });
  });

  test('fails when no named agent is active any more', async () => {
    const extra = await addAgent(app, [webhook]);
    const { id } = await held({ agent_ids: [extra.id] });
    await agentsOf(app).revoke(extra.id);
    expect(await goOn(id)).toMatchObject({ state: 'failed', events: BATCH, reason: expect.stringMatching(/active/) });
  });

  test('continues for the others when an agent is revoked or unsubscribes', async () => {
    const [revoked, left] = [await addAgent(app, [webhook]), await addAgent(app, [webhook])];
    const { id, ids } = await held();
    await agentsOf(app).revoke(revoked.id);
    await agentsOf(app).update(left.id, { webhook_ids: [] });
    expect(await goOn(id)).toMatchObject({ state: 'done', events: ids.length, deliveries: 4 * BATCH });
    expect(await replayed()).toEqual(ids);
    for (const gone of [revoked, left]) expect(await replayed(gone)).toEqual(ids.slice(0, BATCH));
  });

  test('does for a deleted webhook what the replay of a single event does', async () => {
    const deleted = await app.addWebhook();
    const [event] = await storeEvents(app.database, deleted.id, 1, Date.now() - 1_000);
    await app.sql('delete from deliveries');
    const beyond = { agent_ids: [agent.id], beyond_subscriptions: true };
    const { id, ids } = await held(beyond);
    await app.webhooks.remove(deleted.id);
    const { deliveries } = await goOn(id);
    expect(deliveries).toBe(ids.length + 1);
    expect((await operator.api('POST', `/api/v1/events/${event}/replay`, beyond)).status).toBe(201);
  });
});

describe('POST /api/v1/events/replay', () => {
  test('with an Idempotency-Key creates one job', async () => {
    const again = () => operator.api('POST', REPLAY, {}, { 'idempotency-key': 'one' });
    const [first, second] = [await again(), await again()];
    expect(second.body).toEqual(first.body);
    expect(second.headers.get('idempotent-replayed')).toBe('true');
  });

  test.each([
    ['an unknown agent', { agent_ids: [randomUUID()] }, 422, 'invalid_request'],
    ['an unknown filter', { colour: 'red' }, 422, 'invalid_request'],
    ['times in the wrong order', { from: '2026-02-01T00:00:00Z', to: '2026-01-01T00:00:00Z' }, 422, 'invalid_request'],
    ['a webhook without subscribers', { webhook_id: randomUUID() }, 422, 'no_recipients'],
  ])('refuses %s', async (_what, input, status, code) => {
    expect(await operator.api('POST', REPLAY, input)).toMatchObject({ status, body: { code } });
    expect(await app.sql('select from jobs')).toEqual([]);
  });

  test('refuses more than JOBS_UNFINISHED_MAX unfinished jobs', async () => {
    const fill = `insert into jobs (id, kind, filter, until, created_by)
      select gen_random_uuid(), 'replay_events', '{}', now(), '{}' from generate_series(1, $1::int)`;
    await app.sql(fill, JOBS_UNFINISHED_MAX - 1);
    await create();
    expect(await operator.api('POST', REPLAY, {})).toMatchObject({ status: 409, body: { code: 'jobs_full' } });
  });
});

test('finished jobs are deleted after 30 days, unfinished ones are kept', async () => {
  const ids = [await create(), await create(), await create()];
  for (const [id, days] of [
    [ids[0], 31],
    [ids[1], 29],
  ])
    await app.sql(
      `update jobs set state = 'done', finished_at = now() - make_interval(days => $2) where id = $1`,
      id,
      days,
    );
  expect(await deleteOldJobs(app.database)).toBe(1);
  expect((await show(ids[0]!)).code).toBe('job_unknown');
});

test.each([
  [100, 1_000, 20, 80],
  [100, 1_000, 300, 300],
  [0, 1_000, 40, 40],
])('after %i deliveries at %i a second that took %i ms it pauses %i ms', (deliveries, perSecond, tookMs, ms) => {
  expect(restMs(deliveries, perSecond, tookMs)).toBe(ms);
});
