/** Lists, look-ups and actions over all cells while one of them is away: what is there, and what it lacks. */
import { setTimeout as delay } from 'node:timers/promises';
import { afterEach, beforeAll, expect, onTestFinished, test } from 'vitest';
import { evaluate } from '../../../server/manage/conditions/evaluate.ts';
import type { Database } from '../../../server/store/connect/pool.ts';
import { send, type TestAgent } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { startCellApp } from '../../helpers/cells.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const app = shared(() => startCellApp(2, { DELIVERY_MAX_ATTEMPTS: 1 }));
let webhooks: TestWebhook[];
let agent: TestAgent;
/** One event of each webhook, the one of cell 1 between two others. */
let [first, second, third]: string[] = [];
beforeAll(async () => {
  webhooks = [await app.webhookIn(0), await app.webhookIn(1), await app.webhookIn(2)];
  agent = await app.agentOf(webhooks);
  [first, second, third] = [await sendAlone(0), await sendAlone(1), await sendAlone(2)];
});
afterEach(() => bringBack());

/** Sends an event in a millisecond of its own. */
const sendAlone = async (cell: number) => {
  await delay(2);
  return send(webhooks[cell]!);
};
const api = (method: string, path: string, body?: unknown) => app.administrator.api(method, `/api/v1${path}`, body);
const cellsAway = async () => (await (await fetch(`${app.url}/readyz`)).json()) as { cells_away?: number[] };
const takeAway = async () => {
  await app.cells[0]!.cutOff();
  await until(async () => (await cellsAway()).cells_away !== undefined);
};
const bringBack = async () => {
  await app.cells[0]!.restore();
  await until(async () => (await cellsAway()).cells_away === undefined);
};
const idsOf = ({ body }: Awaited<ReturnType<typeof api>>) => body.items.map(({ id }: { id: string }) => id);
const east = () => [{ number: 1, name: app.cells[0]!.name, since: expect.stringMatching(/^\d{4}-/) }];

const overAllCells = [
  ['events', () => '/events'],
  ['events by a filter without an index', () => '/events?content_type=application'],
  ['the number of events', () => '/events/count'],
  ['the deliveries of events', () => `/events/deliveries?event_ids=${[first, second, third].join(',')}`],
  ['deliveries', () => '/deliveries'],
  ['numbers of deliveries', () => '/deliveries/counts'],
  ['dead letters', () => '/deliveries/dead'],
  ['types of events', () => `/webhooks/${webhooks[0]!.id}/event-types`],
] as const;

test.each(overAllCells)('an answer with %s names a cell that is away, and only then', async (_, path) => {
  const whole = await api('GET', path());
  expect([whole.status, whole.body.cells_away]).toEqual([200, undefined]);
  await takeAway();
  const partial = await api('GET', path());
  expect([partial.status, partial.body.cells_away]).toEqual([200, east()]);
});

test('a list has the rows of the other cells, and its cursor finds the rows of the cell that came back', async () => {
  await takeAway();
  const page = await api('GET', '/events?limit=1');
  expect([idsOf(page), page.body.cells_away]).toEqual([[third], east()]);
  expect(idsOf(await api('GET', `/events?cursor=${page.body.next_cursor}`))).toEqual([first]);
  await bringBack();
  const rest = await api('GET', `/events?cursor=${page.body.next_cursor}`);
  expect([idsOf(rest), rest.body.cells_away]).toEqual([[second, first], undefined]);
});

test('one event of a cell that is away, and its deliveries, are refused with its name, others are found', async () => {
  await takeAway();
  for (const path of ['/events/', '/deliveries?event_id=']) {
    const found = await api('GET', path + first);
    expect([found.status, found.body.cells_away]).toEqual([200, undefined]);
    const { status, body } = await api('GET', path + second);
    expect([status, body.code]).toEqual([503, 'database_unavailable']);
    expect(body.detail).toContain(`Cell 1 (${app.cells[0]!.name}) cannot be reached`);
  }
});

test('types of events of two cells are counted together, the most frequent first', async () => {
  const { id: webhookId } = await app.webhookIn(0);
  const insert = (database: Database, type: string, count: number) =>
    database.query({
      text: `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes, event_type)
             select gen_random_uuid(), $1, now(), '127.0.0.1', '', '', 0, $2 from generate_series(1, $3)`,
      values: [webhookId, type, count],
    });
  for (const [database, type, count] of [
    [app.database, 'rare', 1],
    [app.database, 'both', 1],
    [app.cells[0]!.database, 'both', 1],
    [app.cells[0]!.database, 'frequent', 3],
  ] as const)
    await insert(database, type, count);
  onTestFinished(async () => {
    for (const { database } of [app, app.cells[0]!])
      await database.query({ text: 'delete from events where event_type is not null' });
  });
  const { body } = await api('GET', `/webhooks/${webhookId}/event-types`);
  const types = body.items.map((one: { event_type: string | null; events: number }) => [one.event_type, one.events]);
  expect(types.slice(0, 2)).toEqual([
    ['frequent', 3],
    ['both', 2],
  ]);
  expect(types).toContainEqual(['rare', 1]);
});

test('an export is refused before it begins', async () => {
  await takeAway();
  const { status, body } = await api('GET', '/events/export');
  expect([status, body.code]).toEqual([503, 'database_unavailable']);
});

test('an action that touches a cell that is away changes nothing, one elsewhere is done', async () => {
  for (const { receipt } of await agent.claim()) await agent.nack([receipt], { reason: 'refused for good' });
  const { items } = (await api('GET', '/deliveries')).body;
  const of = (event: string) => items.find((one: { event_id: string }) => one.event_id === event).id;
  await takeAway();
  for (const action of ['dismiss', 'replay']) {
    const input = action === 'replay' ? { state: 'dead', agent_id: agent.id } : { agent_id: agent.id };
    expect((await api('POST', `/deliveries/${action}`, input)).status).toBe(503);
  }
  expect((await api('GET', `/deliveries/${of(third!)}`)).body.state).toBe('dead');
  expect((await api('POST', `/deliveries/${of(first!)}/dismiss`)).body.state).toBe('dismissed');
});

test.each([
  ['/events', 'events'],
  ['/deliveries', 'deliveries'],
  ['/search?q=order', 'events'],
])('the page %s says above the list that a cell is away', async (path, what) => {
  expect((await app.administrator.browse('GET', path)).text).not.toContain('cannot be reached');
  await takeAway();
  const { status, text } = await app.administrator.browse('GET', path);
  expect(status).toBe(200);
  expect(text.replace(/<[^>]+>/g, '')).toMatch(
    new RegExp(
      `Cell ${app.cells[0]!.name} \\(1\\) cannot be reached since [^:]+:\\d\\d:\\d\\d UTC: its ${what} are not in this list.`,
    ),
  );
});

test('pages of an event and a webhook that are elsewhere open as before', async () => {
  await takeAway();
  for (const path of [`/events/${first}`, `/webhooks/${webhooks[0]!.id}`, `/agents/${agent.id}`])
    expect([path, (await app.administrator.browse('GET', path)).status]).toEqual([path, 200]);
});

test('the page of a webhook whose cell is away does not wait for its first request', async () => {
  await takeAway();
  const { text } = await app.administrator.browse('GET', `/webhooks/${webhooks[1]!.id}`);
  expect(text).toContain('cannot be reached');
  expect(text).not.toMatch(/First request|No events yet|Try it/);
});

test('a command prints the list, and says on stderr that a cell is away', async () => {
  await takeAway();
  const listed = await app.weir('event', 'list', '--json');
  expect(listed.err).toBe(`weir: cell 1 (${app.cells[0]!.name}) cannot be reached: what it has is not in this list\n`);
  expect(JSON.parse(listed.out)).toMatchObject({ items: [{ id: third }, { id: first }], cells_away: east() });
  expect(listed.code).toBe(0);
});

test('no issue and no alert ends while a cell is away that may have what it is about', async () => {
  const { database } = app.cells[0]!;
  const { id } = await app.agentOf([webhooks[1]!]);
  await database.query({
    text: `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes, state, finished_at)
           values (gen_random_uuid(), $1, $2, gen_random_uuid(), now(), 0, 'dead', now())`,
    values: [webhooks[1]!.id, id],
  });
  onTestFinished(async () => {
    await bringBack();
    await database.query({ text: 'delete from deliveries where agent_id = $1', values: [id] });
  });
  const open = async () =>
    (await api('GET', `/issues?kind=dead_letters&state=open&subject_id=${id}`)).body.items.length;
  const evaluated = async () => {
    const machine = { startedMs: 0, spool: null, cells: [], disks: [] };
    const { began, ended } = (await evaluate(app.primary.database, app.settings, machine, Date.now()))!;
    return [began, ended].map((alerts) => alerts.filter(({ subject_id }) => subject_id === id).length);
  };
  await until(async () => (await open()) === 1);
  expect(await evaluated()).toEqual([1, 0]);
  await takeAway();
  await until(() => app.primary.numbered(1).away !== null);
  expect(await open()).toBe(1);
  expect(await evaluated()).toEqual([0, 0]);
});
