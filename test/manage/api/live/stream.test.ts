/** GET /api/v1/stream from the view of its clients. */
import { connect, type Socket } from 'node:net';
import { setTimeout as delay } from 'node:timers/promises';
import { setFlagsFromString } from 'node:v8';
import { runInNewContext } from 'node:vm';
import { afterAll, afterEach, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { SLOW_MS } from '../../../../server/manage/live/client.ts';
import { LiveHub } from '../../../../server/manage/live/hub.ts';
import { OVERLAP_MS } from '../../../../server/manage/live/newest.ts';
import { RECHECK_MS } from '../../../../server/manage/live/streams.ts';
import { Tally } from '../../../../server/manage/live/tally.ts';
import { noDeaths } from '../../../../server/model/machines.ts';
import { uuidv7Milliseconds } from '../../../../server/store/ids.ts';
import { send as sendTo } from '../../../helpers/agents.ts';
import { startTestApp, type TestWebhook } from '../../../helpers/app.ts';
import { takeClock } from '../../../helpers/clock.ts';
import { hold } from '../../../helpers/hold.ts';
import { addPerson, type TestPerson } from '../../../helpers/people.ts';
import { RawClient, rawRequest, signedRequest } from '../../../helpers/requests.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { openStream, type TestStream } from '../../../helpers/stream.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startTestApp);
const webhook = shared(() => app.addWebhook());
const viewer = shared(() => addPerson(app, 'viewer'));
const streams: TestStream[] = [];
afterEach(async () => {
  for (const stream of streams.splice(0)) stream.leave();
  await until(async () => (await app.metric('weir_streams')) === 0);
});

async function watch(query = '', headers: Record<string, string> = { cookie: viewer.cookie }, of = app) {
  const stream = await openStream(`${of.url}/api/v1/stream${query}`, headers);
  streams.push(stream);
  return stream;
}

const send = (to = webhook) => sendTo(to);

/** Send a further event: an event that a later poll finds again would be reported before it. */
async function sendAndSee(stream: TestStream, to?: TestWebhook): Promise<string> {
  const id = await send(to);
  await stream.next('event', (event) => event.id === id);
  return id;
}

const idsOf = (stream: TestStream) => stream.of('event').map(({ id }) => id);

describe('a stream', () => {
  test('is an uncached, unbuffered event stream', async () => {
    const stream = await watch();
    expect(stream.status).toBe(200);
    expect(stream.headers.get('content-type')).toBe('text/event-stream');
    expect(stream.headers.get('cache-control')).toBe('no-store');
    expect(stream.headers.get('x-accel-buffering')).toBe('no');
    expect(await until(() => stream.retryMs)).toBe(1_000);
  });

  test('sends a new event once, in the form of the list', async () => {
    const stream = await watch();
    const id = await send();
    const { data, id: frameId } = await stream.next('event', (event) => event.id === id);
    expect(frameId).toBe(id);
    const listed = (await viewer.api('GET', `/api/v1/events/${id}`)).body;
    const { headers: _, ...described } = listed;
    expect(data).toEqual(described);
    const next = await sendAndSee(stream);
    expect(idsOf(stream)).toEqual([id, next]);
  });

  test('sends an event that was committed after a newer one, and continues from the newest', async () => {
    const stream = await watch();
    const newer = await send();
    await stream.next('event', (event) => event.id === newer);
    const late = await insertEvent(Date.now() - 5_000);
    const { id } = await stream.next('event', (event) => event.id === late);
    expect(id).toBeUndefined();
  });

  test('of one webhook sends events of that webhook only', async () => {
    const other = await app.addWebhook();
    const [one, all] = await Promise.all([watch(`?webhook_id=${webhook.id.toUpperCase()}`), watch()]);
    const [mine, others] = [await send(), await send(other)];
    await Promise.all([mine, others].map((id) => all.next('event', (event) => event.id === id)));
    await one.next('event', (event) => event.id === mine);
    const next = await sendAndSee(one);
    expect(idsOf(one)).toEqual([mine, next]);
  });

  test.each(['?webhook_id=x', '?after=x', '?after=00000000-0000-4000-8000', '?else=1', '?webhook_id='])(
    'with the parameters %s is refused',
    async (query) => {
      expect((await watch(query)).status).toBe(422);
    },
  );

  test('requested with HEAD has headers only', async () => {
    const head = `HEAD /api/v1/stream HTTP/1.1\r\nHost: x\r\nCookie: ${viewer.cookie}\r\n\r\n`;
    const answer = await rawRequest(app.port, head);
    const { 'content-type': type, 'content-length': length } = answer!.headers;
    expect([answer!.status, type, length]).toEqual([200, 'text/event-stream', undefined]);
    expect([await app.metric('weir_streams'), await app.metric('weir_open_requests')]).toEqual([0, 0]);
  });

  test('of a disconnected client is removed, and counted neither as slow nor as aborted', async () => {
    const clock = takeClock();
    const stream = await watch();
    await until(() => stream.retryMs);
    clock.forward(app.settings.REQUEST_LOG_SLOW_MS);
    stream.leave();
    await until(async () => (await app.metric('weir_streams')) === 0);
    await until(async () => (await app.metric('weir_open_requests')) === 0);
    const lines = app.logLines.map((line) => JSON.parse(line)).filter(({ path }) => path === '/api/v1/stream');
    expect(lines.at(-1)).toMatchObject({ event: 'request', status: 200 });
    expect(lines.filter(({ event }) => event === 'request_slow')).toEqual([]);
    expect(await app.metric('weir_requests_aborted_total')).toBe(0);
  });

  test('of a client that disconnects at once leaves nothing behind', async () => {
    for (let i = 0; i < 30; i++) {
      const client = await RawClient.connect(app.port);
      await client.send(`GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nCookie: ${viewer.cookie}\r\n\r\n`);
      if (i % 2 === 0) await delay(i);
      client.destroy();
    }
    await until(async () => (await app.metric('weir_open_requests')) === 0);
    expect(await app.metric('weir_streams')).toBe(0);
  });
});

describe('a client that reconnects', () => {
  test.each([
    ['by Last-Event-ID', (id: string) => ['', { 'last-event-id': id }] as const],
    ['by the parameter', (id: string) => [`?after=${id}`, {}] as const],
    ['by both, of which the header counts', (id: string) => [`?after=${uuidAt(0)}`, { 'last-event-id': id }] as const],
    ['by an id in capitals', (id: string) => ['', { 'last-event-id': id.toUpperCase() }] as const],
  ])('%s receives what it missed, in order, then new events', async (_how, asking) => {
    const own = await app.addWebhook();
    const ids = [await send(own), await send(own), await send(own)];
    const [query, headers] = asking(ids[0]!);
    const stream = await watch(query === '' ? `?webhook_id=${own.id}` : `${query}&webhook_id=${own.id}`, {
      cookie: viewer.cookie,
      ...headers,
    });
    await stream.next('event', (event) => event.id === ids[2]);
    const later = [await sendAndSee(stream, own), await sendAndSee(stream, own)];
    expect(idsOf(stream)).toEqual([...ids, ...later]);
    expect(stream.of('gap')).toEqual([]);
  });

  test('receives an older event that was committed after the one it has', async () => {
    const own = await app.addWebhook();
    const known = await send(own);
    const knownMs = uuidv7Milliseconds(known);
    await insertEvent(knownMs - OVERLAP_MS - 1, own);
    const late = await insertEvent(knownMs - OVERLAP_MS, own);
    const stream = await watch(`?webhook_id=${own.id}`, { cookie: viewer.cookie, 'last-event-id': known });
    await stream.next('event', (event) => event.id === known);
    expect(idsOf(stream)).toEqual([late, known]);
    // The stream continues from the highest id.
    expect(stream.frames.filter(({ event }) => event === 'event').map(({ id }) => id)).toEqual([undefined, undefined]);
  });

  test('with an invalid id receives new events', async () => {
    const stream = await watch('', { cookie: viewer.cookie, 'last-event-id': "1' or true" });
    const id = await send();
    await stream.next('event', (event) => event.id === id);
    expect(idsOf(stream)).toEqual([id]);
  });

  test.each([
    ['all of 200 events', 200, 0],
    ['a gap notice and the newest 200 of more', 201, 1],
  ])('receives %s', async (_what, missed, gaps) => {
    const own = await app.addWebhook();
    const first = await send(own);
    await insertEvents(missed - 1, own);
    const stream = await watch(`?webhook_id=${own.id}`, { cookie: viewer.cookie, 'last-event-id': first });
    await until(() => idsOf(stream).length === 200);
    const kinds = stream.frames.map(({ event }) => event).filter((event) => event !== 'counters');
    expect(kinds).toEqual([...Array(gaps).fill('gap'), ...Array(200).fill('event')]);
    expect(idsOf(stream)).toEqual([...idsOf(stream)].sort());
  });
});

describe('a stream ends', () => {
  const byId = (change: string) => (p: TestPerson) => app.sql(`${change} = $1`, p.id);

  test.each([
    ['sign-out', (p: TestPerson) => app.sql('delete from sessions where id = $1', p.sessionId), 'cookie'],
    ['disabling the user', byId('update users set disabled_at = now() where id'), 'both'],
    ['deleting the user', byId('delete from users where id'), 'both'],
    ['a higher role', byId(`update users set role = 'operator' where id`), 'cookie'],
    ['revoking the token', byId('update api_tokens set revoked_at = now() where user_id'), 'token'],
    ['a lower role of the token', byId(`update api_tokens set role = 'viewer' where user_id`), 'none'],
  ] as const)('at %s, and other streams continue', async (_what, change, which) => {
    // Without the check of every 15 s: the change is announced.
    takeClock();
    const person = await addPerson(app, 'viewer');
    const [byCookie, byToken, other] = await Promise.all([
      watch('', { cookie: person.cookie }),
      watch('', { authorization: `Bearer ${person.token}` }),
      watch(),
    ]);
    await change(person);
    await until(() => byCookie.ended === (which === 'cookie' || which === 'both'));
    await until(() => byToken.ended === (which === 'token' || which === 'both'));
    await delay(200);
    expect([byCookie.ended, byToken.ended, other.ended]).toEqual([
      which === 'cookie' || which === 'both',
      which === 'token' || which === 'both',
      false,
    ]);
  });

  test('when a lower role of its user takes effect', async () => {
    takeClock();
    const person = await addPerson(app, 'administrator');
    const stream = await watch('', { authorization: `Bearer ${person.token}` });
    await app.sql(`update users set role = 'viewer' where id = $1`, person.id);
    await until(() => stream.ended);
    expect((await watch('', { authorization: `Bearer ${person.token}` })).status).toBe(200);
  });

  test('when its user is disabled while it opens', async () => {
    takeClock();
    const person = await addPerson(app, 'viewer');
    const release = await hold(app.conninfo, 'lock table events in access exclusive mode');
    onTestFinished(release);
    const opening = watch('', { cookie: person.cookie });
    const waiting = `select from pg_locks where not granted and relation = 'events'::regclass`;
    await until(async () => (await app.sql(waiting)).length > 0);
    await byId('update users set disabled_at = now() where id')(person);
    // The announcement finds no stream yet.
    await app.app.change(`user:${person.id}`);
    await release();
    const stream = await opening;
    expect(stream.status).toBe(200);
    await until(() => stream.ended);
  });

  test('at the next check after its session expires or is unused for a day (a stream is not use), without a notification', async () => {
    const clock = takeClock();
    const other = await watch();
    const changes = ['expires_at = now()', `last_seen_at = now() - interval '1 day'`];
    const people = await Promise.all(changes.map(() => addPerson(app, 'viewer')));
    const streams = await Promise.all(people.map(({ cookie }) => watch('', { cookie })));
    // Wait until each stream has made its first check, which would otherwise find the change below.
    for (const { id } of people) await app.app.change(`user:${id}`);
    for (const [i, change] of changes.entries())
      await app.sql(`update sessions set ${change} where id = $1`, people[i]!.sessionId);
    expect(streams.map(({ ended }) => ended)).toEqual([false, false]);
    clock.forward(RECHECK_MS);
    await until(() => streams.every(({ ended }) => ended));
    expect(other.ended).toBe(false);
  });
});

describe('counters', () => {
  let hub: LiveHub;
  beforeAll(() => {
    // In production the primary does this for each process; the test does it for one.
    hub = new LiveHub({
      collect: async () => hub.take(process.pid, app.app.sample()),
      send: (live) => app.app.live(live),
      databaseAnswers: () => true,
      outages: { second: () => null },
      disks: () => [],
      deaths: () => noDeaths,
      countDeliveries: async () => ({ pending: 1, leased: 2, dead: 3, exact: true, at: new Date().toISOString() }),
    });
    hub.start();
  });
  afterAll(() => hub.stop());

  test('are sent at once and then each second, without those of the seconds before', async () => {
    await until(async () => (await viewer.api('GET', '/api/v1/counters')).body.history.length > 1);
    const stream = await watch();
    await until(() => stream.of('counters').length >= 3);
    expect(new Set(stream.frames.map(({ event }) => event))).toEqual(new Set(['counters']));
    const [, one, two] = stream.of('counters');
    expect(Date.parse(two.second.at) - Date.parse(one.second.at)).toBeGreaterThan(500);
    expect(two.processes).toMatchObject([{ pid: process.pid, state: 'serving', database: 'up', streams: 1 }]);
  });

  test('count accepted and refused requests by cause', async () => {
    const stream = await watch();
    const totals = async () => (await stream.next('counters')).data.totals;
    const before = await totals();
    for (let i = 0; i < 3; i++) await send();
    await fetch(webhook.url, signedRequest({ secret: 'wrong' }));
    await fetch(webhook.url, { method: 'POST', body: 'x' });
    await fetch(`${app.url}/in/00000000-0000-4000-8000-000000000000`, { method: 'POST', body: 'x' });
    const grown = (name: string, by: number) => (data: { totals: Record<string, number> }) =>
      data.totals[name]! - before[name] === by;
    await stream.next('counters', grown('accepted', 3));
    await stream.next('counters', grown('rejected', 2));
    await stream.next('counters', grown('refused', 1));
    const { body } = await viewer.api('GET', '/api/v1/counters');
    const sum = (name: string) =>
      body.history.reduce((all: number, second: Record<string, number>) => all + second[name]!, 0);
    expect([sum('accepted'), sum('rejected')]).toEqual([body.latest.totals.accepted, body.latest.totals.rejected]);
  });

  test('include the deliveries while a client watches', async () => {
    const stream = await watch();
    await stream.next('counters', (live) => live.deliveries?.pending === 1);
    stream.leave();
    await until(async () => (await viewer.api('GET', '/api/v1/counters')).body.latest.deliveries === null);
  });

  test('continue while the database is unavailable and report it; events follow after recovery', async () => {
    const stream = await watch();
    await app.cutOff();
    await stream.next('counters', (live) => live.database === 'down');
    await app.restore();
    await until(async () => (await fetch(`${app.url}/readyz`)).status === 200);
    const id = await send();
    await stream.next('event', (event) => event.id === id);
    expect(stream.ended).toBe(false);
  });
});

/** With many processes the frame is large. */
function largeLive(processes: number) {
  const tally = new Tally(0);
  const sample = app.app.sample();
  for (let pid = 1; pid <= processes; pid++) tally.take(pid, sample, 0);
  return tally.second(Date.now(), null);
}

/** Resident bytes after a garbage collection. */
function rssWithoutGarbage(): number {
  setFlagsFromString('--expose-gc');
  runInNewContext('gc')();
  return process.memoryUsage.rss();
}

describe('a client that does not read', () => {
  /** Sends the request, and reads nothing until it is resumed. */
  async function openUnread(): Promise<Socket> {
    const client = connect({ host: '127.0.0.1', port: app.port });
    client.on('error', () => {});
    client.pause().write(`GET /api/v1/stream HTTP/1.1\r\nHost: x\r\nCookie: ${viewer.cookie}\r\n\r\n`);
    await until(async () => (await app.metric('weir_streams')) === 1);
    return client;
  }

  /** Send more than the buffers of the kernel can take, so that the client falls behind. */
  const fillBuffers = () => app.app.live(largeLive(40_000));

  test('is disconnected after ten seconds, with bounded memory', async () => {
    const clock = takeClock();
    const client = await openUnread();
    fillBuffers();
    const live = largeLive(2_000);
    const cutBefore = await app.metric('weir_streams_dropped_total');
    const rssBefore = rssWithoutGarbage();
    for (let i = 0; i < 200; i++) app.app.live(live);
    const heldBytes = rssWithoutGarbage() - rssBefore;
    expect(JSON.stringify(live).length * 200).toBeGreaterThan(100_000_000);
    expect(heldBytes).toBeLessThan(60_000_000);
    clock.forward(SLOW_MS - 1);
    // The stream is checked once a second.
    await delay(1_200);
    expect(await app.metric('weir_streams_dropped_total')).toBe(cutBefore);
    clock.forward(1);
    await until(async () => (await app.metric('weir_streams_dropped_total')) === cutBefore + 1);
    expect([await app.metric('weir_streams'), await app.metric('weir_open_requests')]).toEqual([0, 0]);
    client.destroy();
  });

  test('and reads again is informed of the gap', async () => {
    takeClock();
    const client = await openUnread();
    fillBuffers();
    // What the next stream begins with.
    app.app.live(largeLive(1));
    // The poll that finds the event passes it to both.
    await sendAndSee(await watch());
    let received = '';
    client.setEncoding('utf8').on('data', (text) => {
      received += text;
    });
    client.resume();
    await until(() => received.includes('event: gap'));
    client.destroy();
  });
});

test('a process serves at most STREAMS_MAX streams', async () => {
  const small = await ofTest(startTestApp({ STREAMS_MAX: 2 }, app));
  const headers = { authorization: `Bearer ${viewer.token}` };
  const open = await Promise.all([1, 2].map(() => watch('', headers, small)));
  expect(open.map(({ status }) => status)).toEqual([200, 200]);
  const refused = await watch('', headers, small);
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([503, '1']);
  open[0]!.leave();
  await until(async () => (await small.metric('weir_streams')) === 1);
  expect((await watch('', headers, small)).status).toBe(200);
});

test('a user has at most USER_STREAMS_MAX streams, with any kind of authentication', async () => {
  const small = await ofTest(startTestApp({ USER_STREAMS_MAX: 2 }, app));
  const headers = [{ cookie: viewer.cookie }, { authorization: `Bearer ${viewer.token}` }];
  const asked = await Promise.all([0, 1, 1, 0].map((i) => watch('', headers[i]!, small)));
  expect(asked.map(({ status }) => status).sort()).toEqual([200, 200, 429, 429]);
  const refused = await fetch(`${small.url}/api/v1/stream`, { headers: headers[0]! });
  expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '1']);
  expect(((await refused.json()) as { code: string }).code).toBe('user_streams_full');
  const other = await addPerson(small, 'viewer');
  expect((await watch('', { cookie: other.cookie }, small)).status).toBe(200);
  asked.find(({ status }) => status === 200)!.leave();
  await until(async () => (await small.metric('weir_streams')) === 2);
  expect((await watch('', headers[0]!, small)).status).toBe(200);
});

test('a draining process ends its streams at once', async () => {
  const leaving = await startTestApp({ DRAIN_SECONDS: 15 }, app);
  const stream = await watch('', { authorization: `Bearer ${viewer.token}` }, leaving);
  await leaving.stop();
  expect(stream.ended).toBe(true);
  expect(leaving.logLines.filter((line) => line.includes('drain_timeout'))).toEqual([]);
});

const uuidAt = (ms: number) =>
  ms
    .toString(16)
    .padStart(12, '0')
    .replace(/^(.{8})(.{4})$/, '$1-$2-7000-8000-000000000000');

/** Stored like by a process whose commit was slow. */
async function insertEvent(receivedMs: number, of = webhook): Promise<string> {
  const id = uuidAt(receivedMs);
  await app.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
           values ($1, $2, $3, '127.0.0.1', '', '', 0)`,
    id,
    of.id,
    new Date(receivedMs).toISOString(),
  );
  return id;
}

async function insertEvents(count: number, of = webhook): Promise<void> {
  const nowMs = Date.now();
  await app.sql(
    `insert into events (id, webhook_id, received_at, source_ip, headers, body, bytes)
           select (left($1, 24) || lpad(to_hex(n), 12, '0'))::uuid, $2, $3, '127.0.0.1', '', '', 0
           from generate_series(1, $4::int) n`,
    uuidAt(nowMs),
    of.id,
    new Date(nowMs).toISOString(),
    count,
  );
}
