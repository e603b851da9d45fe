/** Lists of events: each filter, alone and page by page, and searches over the time limit. */
import { randomBytes } from 'node:crypto';
import { beforeAll, describe, expect, test } from 'vitest';
import { EventSearch, SEARCHES_MAX, type SearchResult } from '../../../../server/manage/api/events/search.ts';
import type { Database, Query } from '../../../../server/store/connect/pool.ts';
import { uuidText, uuidv7 } from '../../../../server/store/ids.ts';
import { addAgent, request, startAgentApp } from '../../../helpers/agents.ts';
import type { TestWebhook } from '../../../helpers/app.ts';
import { takeClock } from '../../../helpers/clock.ts';
import { addPerson } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { gate, until } from '../../../helpers/wait.ts';

const app = shared(startAgentApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const pushed = shared(() => app.addWebhook());
const agent = shared(() => addAgent(app, [pushed]));
const other = shared(() => app.addWebhook());
/** Events by name; each is a minute older than the previous one. */
let events: Record<string, string>;

const NEWEST_MS = Date.now() - 60_000;
const minutesAgo = (minutes: number) => new Date(NEWEST_MS - minutes * 60_000).toISOString();

/** Name, headers, type of the event, content type, client, body, and the state of its delivery; without one its webhook has no agent. */
const stored: [string, string, string | null, string | null, string, string | Buffer, string | null][] = [
  ['json', 'x-a: 1\nx-kind: Order', 'issues.opened', 'application/json', '192.0.2.1', '{"a":"Needle 100%"}', 'pending'],
  ['charset', 'x-kind: nö', 'issues.closed', 'Application/JSON; charset=utf-8', '192.0.2.77', 'a_b', 'leased'],
  ['text', '', null, 'text/plain', '2001:db8::1', "'; drop table events; --", 'done'],
  ['binary', '', null, null, '198.51.100.9', Buffer.of(0, 0xff, 0xc3, 0x28), 'dead'],
  ['unicode', '', 'größer', 'text/plain', '192.0.2.1', 'größer als 🦊', null],
  ['undelivered', '', 'issues.opened', 'text/plain', '192.0.3.1', 'needle', null],
];

beforeAll(async () => {
  const made = stored.map(async ([name, headers, event, type, source, text, state], minutes) => {
    const [webhook, body] = [state === null ? other : pushed, Buffer.from(text)];
    const id = await store({ webhook, ms: NEWEST_MS - minutes * 60_000, headers, event, type, source, body });
    await app.sql(
      `update deliveries set state = $2, finished_at = case when $2 in ('done', 'dead') then now() end where event_id = $1`,
      id,
      state,
    );
    return [name, id] as const;
  });
  events = Object.fromEntries(await Promise.all(made));
});

interface Given {
  webhook: TestWebhook;
  ms: number;
  headers?: string;
  /** Type of the event. */
  event?: string | null;
  type: string | null;
  source: string;
  body: Buffer;
}

async function store({ webhook, ms, headers = '', event = null, type, source, body }: Given): Promise<string> {
  const id = uuidText(uuidv7(ms, randomBytes(16)));
  await app.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, event_type, content_type, body, bytes)
           values ($1, $2, $3, $4, convert_to($9, 'UTF8'), $8, $5, $6, $7)`,
    id,
    webhook.id,
    new Date(ms).toISOString(),
    source,
    type,
    body,
    body.length,
    event,
    headers,
  );
  return id;
}

type Page = {
  items: { id: string }[];
  next_cursor: string | null;
  complete: boolean;
  searched_to: string | null;
};
type Read = (path: string) => Promise<{ status: number; body: Page }>;
const asViewer: Read = (path) => viewer.api('GET', path);
const asAgent: Read = (path) => request(app.url + path, agent.token);

/** Names of all events with these parameters, read page by page. */
async function namesOf(parameters: Record<string, string>, read = asViewer, limit = 2): Promise<string[]> {
  const names = new Map(Object.entries(events).map(([name, id]) => [id, name]));
  const found: string[] = [];
  for (let cursor = {}; ; ) {
    const query = new URLSearchParams({ ...parameters, limit: String(limit), ...cursor });
    const { status, body } = await read(`/api/v1/events?${query}`);
    expect([status, body.items.length <= limit]).toEqual([200, true]);
    found.push(...body.items.map(({ id }) => names.get(id)!));
    if (body.next_cursor === null) return found;
    cursor = { cursor: body.next_cursor };
  }
}

const all = stored.map(([name]) => name);
const delivered = all.slice(0, 4);

describe('the events of a user', () => {
  test.each<[Record<string, string>, readonly string[]]>([
    [{}, all],
    [{ type: 'issues.opened' }, ['json', 'undelivered']],
    [{ type: 'größer' }, ['unicode']],
    [{ type: 'issues' }, []],
    [{ type: 'Issues.opened' }, []],
    [{ type: 'issues.opened', content_type: 'application/json' }, ['json']],
    [{ content_type: 'application/json' }, ['json', 'charset']],
    [{ content_type: 'APPLICATION/json; charset' }, ['charset']],
    [{ content_type: 'json' }, []],
    [{ content_type: '%' }, []],
    [{ source: '192.0.2.1' }, ['json', 'unicode']],
    [{ source: '192.0.2.0/24' }, ['json', 'charset', 'unicode']],
    [{ source: '192.0.2.9/16' }, ['json', 'charset', 'unicode', 'undelivered']],
    [{ source: '::ffff:192.0.2.77' }, ['charset']],
    [{ source: '2001:db8::/32' }, ['text']],
    [{ source: '0.0.0.0/0' }, all.filter((name) => name !== 'text')],
    [{ delivery_state: 'pending' }, ['json']],
    [{ delivery_state: 'leased' }, ['charset']],
    [{ delivery_state: 'done' }, ['text']],
    [{ delivery_state: 'dead' }, ['binary']],
    [{ delivery_state: 'none' }, ['unicode', 'undelivered']],
    [{ header: 'x-kind: Order' }, ['json']],
    [{ header: 'X-Kind: Order' }, ['json']],
    [{ header: 'x-kind: order' }, []],
    [{ header: 'Ord' }, ['json']],
    [{ header: 'nö' }, ['charset']],
    [{ q: 'needle' }, ['undelivered']],
    [{ q: 'Needle' }, ['json']],
    [{ q: '%' }, ['json']],
    [{ q: '_' }, ['charset']],
    [{ q: "'; drop table events; --" }, ['text']],
    [{ q: 'größer als 🦊' }, ['unicode']],
    [{ q: '\0' }, ['binary']],
    [{ q: '\\' }, []],
    [{ q: 'nowhere' }, []],
    [{ from: minutesAgo(1), to: minutesAgo(0) }, ['charset']],
    [{ from: minutesAgo(1) }, ['json', 'charset']],
    [{ to: minutesAgo(4) }, ['undelivered']],
    [{ from: minutesAgo(1).replace('Z', '') }, ['json', 'charset']],
    [{ from: '2020-01-01T00:00:00+02:00', to: '2020-01-02T00:00' }, []],
    [{ from: '0001-01-01T00:00:00Z', to: '9999-12-31T23:59:59.999Z' }, all],
    [{ content_type: 'text/plain', source: '192.0.2.0/24', q: 'als', delivery_state: 'none' }, ['unicode']],
  ])('with %o are %o', async (parameters, names) => {
    expect(await namesOf(parameters)).toEqual(names);
  });

  test('are counted', async () => {
    const count = async (query: string) => (await viewer.api('GET', `/api/v1/events/count?${query}`)).body;
    expect(await count('')).toEqual({ count: all.length, exact: true });
    expect(await count('type=issues.opened')).toEqual({ count: 2, exact: true });
    expect(await count(`delivery_state=none&webhook_id=${other.id}`)).toEqual({ count: 2, exact: true });
    expect(await count('type=nowhere')).toEqual({ count: 0, exact: true });
  });

  test('are those of a webhook', async () => {
    expect(await namesOf({ webhook_id: pushed.id })).toEqual(delivered);
    expect(await namesOf({ webhook_id: other.id.toUpperCase() }, asViewer, 1)).toEqual(['unicode', 'undelivered']);
  });
});

describe('the events of an agent', () => {
  test.each<[Record<string, string>, readonly string[]]>([
    [{}, delivered],
    [{ source: '192.0.2.0/24' }, ['json', 'charset']],
    [{ delivery_state: 'dead' }, ['binary']],
    [{ delivery_state: 'none' }, []],
    [{ q: 'eedle' }, ['json']],
    [{ from: minutesAgo(2), to: minutesAgo(0) }, ['charset', 'text']],
  ])('with %o are %o', async (parameters, names) => {
    expect(await namesOf(parameters, asAgent)).toEqual(names);
  });

  test('are listed once, even after replays', async () => {
    const text = `insert into deliveries (id, webhook_id, agent_id, event_id, received_at, bytes)
      select delivery_id(event_id), webhook_id, agent_id, event_id, received_at, bytes from deliveries where event_id = $1`;
    await app.sql(text, events.json);
    expect(await namesOf({}, asAgent, 1)).toEqual(delivered);
    await app.sql(
      `delete from deliveries where event_id = $1 and id not in (select min(id::text)::uuid from deliveries where event_id = $1)`,
      events.json,
    );
  });
});

describe('invalid parameters', () => {
  test.each([
    ['from', 'yesterday'],
    ['from', '2026-02-30T00:00:00Z'],
    ['to', '0000-01-01T00:00:00Z'],
    ['to', '9999-12-31T23:59:59-23:59'],
    ['to', '-271821-04-20T00:00:00Z'],
    ['delivery_state', 'lost'],
    ['content_type', 'text/\0plain'],
    ['content_type', 'x'.repeat(201)],
    ['source', 'localhost'],
    ['source', '10/8'],
    ['source', '10.0.0.0/33'],
    ['source', 'fe80::1%eth0'],
    ['source', "10.0.0.1' or true"],
    ['q', 'x'.repeat(201)],
    ['q', ''],
    ['source', ''],
    ['webhook_id', "' or 1=1 --"],
    ['cursor', 'ffffffff-ffff-7fff-bfff-ffffffffffff'],
  ])('%s=%s is reported by name', async (name, value) => {
    const { status, body } = await viewer.api('GET', `/api/v1/events?${new URLSearchParams({ [name]: value })}`);
    expect([status, body.code, body.errors.length]).toEqual([422, 'invalid_request', 1]);
    expect(JSON.stringify(body.errors[0])).toContain(name);
  });

  test('an end before the start is reported for the end', async () => {
    const { status, body } = await viewer.api(
      'GET',
      '/api/v1/events?from=2026-02-01T00:00:00Z&to=2026-01-01T00:00:00Z',
    );
    expect([status, body.errors]).toEqual([422, [{ parameter: 'to', detail: 'Give a time that is not before from.' }]]);
  });
});

describe('a search through many events', () => {
  const filter = {
    agentId: null,
    webhookId: null,
    deliveryState: null,
    type: null,
    contentType: null,
    header: null,
    source: null,
    text: null,
  };
  const sought = { ...filter, text: Buffer.from('to be found') };
  const open = { from: null, to: null, before: null };
  let found: string[];

  /** One event before 3,000 others, two in the same millisecond, and one after them; the first slice has 1,000. */
  beforeAll(async () => {
    await app.sql(
      `insert into events (id, webhook_id, received_at, source_ip, headers, content_type, body, bytes)
             select (substr(delivery_id($1)::text, 1, 24) || lpad(to_hex(i), 12, '0'))::uuid, $2::uuid, $3::timestamptz, '203.0.113.1', '', null, $4::bytea, 1000
             from generate_series(1, 3000) i`,
      idAt(-10),
      other.id,
      minutesAgo(-10),
      Buffer.from('hay'.repeat(333)),
    );
    const body = Buffer.from('here: to be found');
    found = [];
    for (const minutes of [-15, -10, -10, 10]) {
      const ms = NEWEST_MS - minutes * 60_000;
      found.push(await store({ webhook: other, ms, type: null, source: '203.0.113.1', body }));
    }
  });

  const nowhere = { filter: { ...filter, text: Buffer.from('nowhere') }, span: open, limit: 50 };

  /** An event this many minutes ago. */
  const idAt = (minutes: number) => uuidText(uuidv7(NEWEST_MS - minutes * 60_000, randomBytes(16)));

  async function searchOn(search: EventSearch, limit: number): Promise<{ ids: string[]; searches: number }> {
    const ids: string[] = [];
    let before: string | null = null;
    for (let searches = 1; ; searches++) {
      const part: SearchResult = (await search.find({ filter: sought, span: { ...open, before }, limit }))!;
      ids.push(...part.rows.map(({ id }) => id));
      before = part.stoppedAt ?? (part.rows.length === limit ? part.rows.at(-1)!.id : null);
      if (before === null) return { ids, searches };
    }
  }

  /**
   * Starts SEARCHES_MAX searches, one after another, on the app's database, and holds each one's third statement: its
   * first slice takes two, so each has its place among the concurrent searches.
   */
  async function heldSearches() {
    let statements = 0;
    const { opened: released, open: release } = gate();
    const query: Query = async (statement) => {
      statements++;
      if (statements % 3 === 0 && statements <= 3 * SEARCHES_MAX) await released;
      return app.database.query(statement);
    };
    const search = new EventSearch({ ...app.database, query } satisfies Database, Number.POSITIVE_INFINITY);
    const running = [];
    while (running.length < SEARCHES_MAX) {
      running.push(search.find(nowhere));
      await until(() => statements === 3 * running.length);
    }
    return { search, running, release };
  }

  test('finds each event once, in one run or in slices', async () => {
    for (const limit of [1, 2, 50]) {
      const inTime = await searchOn(new EventSearch(app.database, Number.POSITIVE_INFINITY), limit);
      const stopped = await searchOn(new EventSearch(app.database, 0), limit);
      expect(inTime.ids.toSorted()).toEqual(found.toSorted());
      expect(stopped.ids).toEqual(inTime.ids);
      if (limit === 50) expect([inTime.searches, stopped.searches]).toEqual([1, 4]);
    }
  });

  test('stops when its client disconnects', async () => {
    const search = new EventSearch(app.database, Number.POSITIVE_INFINITY);
    const part = await search.find({ filter: sought, span: open, limit: 50, isGone: () => true });
    // Events of the same millisecond have any position among the 3,000; the last one is after them.
    expect(part!.rows[0]!.id).toBe(found[0]);
    expect(part!.rows.map(({ id }) => id)).not.toContain(found.at(-1));
    expect(part!.stoppedAt).toMatch(/-/);
  });

  test('is refused beyond the limit of concurrent searches, and accepted after they end', async () => {
    const { search, running, release } = await heldSearches();
    expect(await Promise.all([search.find(nowhere), search.find(nowhere)])).toEqual([null, null]);
    release();
    const complete = { rows: [], stoppedAt: null };
    expect(await Promise.all(running)).toEqual(running.map(() => complete));
    expect(await search.find(nowhere)).toEqual(complete);
  });

  test('whose page is filled in the first slice is never refused', async () => {
    const search = new EventSearch(app.database);
    const near = { filter: { ...filter, webhookId: other.id }, span: open, limit: 50 };
    const answers = await Promise.all(Array.from({ length: SEARCHES_MAX + 4 }, () => search.find(near)));
    expect(answers.map((answer) => answer?.rows.length)).toEqual(answers.map(() => 50));
  });

  test('is refused over HTTP with Retry-After', async () => {
    // On a busy machine the first slice could use up the time of a search.
    takeClock();
    const answers = await Promise.all(
      Array.from({ length: SEARCHES_MAX + 6 }, () => viewer.api('GET', '/api/v1/events?q=nowhere')),
    );
    const refused = answers.filter(({ status }) => status === 503);
    expect(refused.length).toBeGreaterThan(0);
    expect([refused[0]!.body.code, refused[0]!.headers.get('retry-after')]).toEqual(['search_busy', '1']);
    const others = answers.filter(({ status }) => status !== 503);
    expect(others.length).toBeGreaterThanOrEqual(SEARCHES_MAX);
    expect(others[0]!.body).toEqual({ items: [], next_cursor: null, complete: true, searched_to: null });
  });
});
