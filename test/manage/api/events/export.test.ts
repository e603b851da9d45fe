/** Exports of events: the formats, large bodies, and clients that read slowly. */
import { once } from 'node:events';
import { connect, type Socket } from 'node:net';
import { beforeAll, describe, expect, test } from 'vitest';
import { EXPORTS_MAX, ExportSlots, exportText, USER_EXPORTS_MAX } from '../../../../server/manage/api/events/export.ts';
import { EventSearch } from '../../../../server/manage/api/events/search.ts';
import { storeEvents } from '../../../helpers/agents.ts';
import { startTestApp } from '../../../helpers/app.ts';
import { addPerson, type TestPerson } from '../../../helpers/people.ts';
import { rawRequest } from '../../../helpers/requests.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';

const app = shared(startTestApp);
const viewer = shared(() => addPerson(app, 'viewer'));
const webhook = shared(() => app.addWebhook({ secret: null, event_type_from: 'json:/type' }));
let ids: string[];
beforeAll(async () => {
  ids = [];
  for (const [body, type] of [
    ['{"type":"order.created","n":1}', 'application/json'],
    ['{"type":"=1+1, \\"x\\"","n":2}', 'application/json'],
    [Buffer.of(0, 0xff, 0xc3), 'application/octet-stream'],
  ] as const) {
    const response = await fetch(webhook.url, { method: 'POST', body, headers: { 'content-type': type } });
    ids.unshift(((await response.json()) as { id: string }).id);
  }
});

test('a user has two slots, and a process EXPORTS_MAX', () => {
  expect(USER_EXPORTS_MAX).toBe(2);
  const slots = new ExportSlots();
  const enter = (user: string) => {
    const slot = slots.enter(user);
    return slot.kind === 'problem' ? slot.code : slot.leave;
  };
  const held = Array.from({ length: EXPORTS_MAX }, (_, i) => enter(`user ${Math.floor(i / USER_EXPORTS_MAX)}`));
  expect(held.every((slot) => typeof slot === 'function')).toBe(true);
  expect(enter('user 0')).toBe('user_exports_full');
  expect(enter('another')).toBe('exports_full');
  (held[0] as () => void)();
  expect(enter('another')).toBeTypeOf('function');
  expect(enter('user 0')).toBe('exports_full');
});

const get = (query: string) => exportOf(viewer, query);

const exportOf = (person: TestPerson, query: string) =>
  fetch(`${app.url}/api/v1/events/export?${query}`, { headers: { authorization: `Bearer ${person.token}` } });

/** Starts an export; resolves when it has started, and reads no more of it. */
async function exportUnread(person: TestPerson, query: string, port = app.port): Promise<Socket> {
  const socket = connect(port, '127.0.0.1');
  socket.on('error', () => {});
  socket.write(
    `GET /api/v1/events/export?${query} HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${person.token}\r\n\r\n`,
  );
  await new Promise((resolve) => socket.once('readable', resolve));
  expect(String(socket.read(12))).toBe('HTTP/1.1 200');
  return socket;
}

describe('an export', () => {
  test('in NDJSON has the events as the list returns them, newest first', async () => {
    const response = await get('');
    expect([response.status, response.headers.get('content-type')]).toEqual([200, 'application/x-ndjson']);
    expect(response.headers.get('content-disposition')).toBe('attachment; filename="events.ndjson"');
    const lines = (await response.text()).split('\n');
    expect(lines.pop()).toBe('');
    const listed = (await viewer.api('GET', '/api/v1/events')).body.items;
    expect(lines.map((line) => JSON.parse(line))).toEqual(listed);
    expect(listed.map(({ id }: { id: string }) => id)).toEqual(ids);
  });

  test('asked for with HEAD states no length', async () => {
    const field = `authorization: Bearer ${viewer.token}`;
    const answer = await rawRequest(app.port, `HEAD /api/v1/events/export HTTP/1.1\r\nhost: a\r\n${field}\r\n\r\n`);
    const { 'content-type': type, 'content-length': length, connection } = answer!.headers;
    expect([answer!.status, type, length, connection]).toEqual([200, 'application/x-ndjson', undefined, 'close']);
  });

  test('has the bodies on demand, and passes the filters', async () => {
    const bodies = async (query: string) =>
      (await (await get(query)).text())
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line))
        .map(({ body, body_base64 }) => body ?? body_base64);
    expect(await bodies('bodies=true')).toEqual([
      'AP/D',
      '{"type":"=1+1, \\"x\\"","n":2}',
      '{"type":"order.created","n":1}',
    ]);
    expect(await bodies('bodies=true&type=order.created')).toEqual(['{"type":"order.created","n":1}']);
    expect(await bodies(`bodies=true&cursor=${ids[1]}`)).toEqual(['{"type":"order.created","n":1}']);
  });

  test('in CSV quotes its fields, and defuses formulas', async () => {
    const response = await get('format=csv');
    expect(response.headers.get('content-type')).toBe('text/csv; charset=utf-8');
    const [head, ...lines] = (await response.text()).split('\r\n');
    expect(head).toBe('received_at,event_type,webhook_id,source_ip,content_type,bytes,id');
    expect(lines.map((line) => line.replace(/^[^,]*,/, ''))).toEqual([
      `,${webhook.id},127.0.0.1,application/octet-stream,3,${ids[0]}`,
      `"'=1+1, ""x""",${webhook.id},127.0.0.1,application/json,28,${ids[1]}`,
      `order.created,${webhook.id},127.0.0.1,application/json,30,${ids[2]}`,
      '',
    ]);
  });

  test('refuses bodies in CSV, and unknown filters', async () => {
    expect((await get('format=csv&bodies=true')).status).toBe(422);
    expect((await get('nothing=1')).status).toBe(422);
  });

  test('of many events has all of them once, up to its limit', async () => {
    const many = await app.addWebhook();
    await storeEvents(app.database, many.id, 450);
    const span = { from: null, to: null, before: null };
    const filter = {
      agentId: null,
      webhookId: many.id,
      deliveryState: null,
      type: null,
      contentType: null,
      source: null,
    };
    const parts = { database: app.database, search: new EventSearch(app.database) };
    for (const [limit, expected] of [
      [1_000, 450],
      [400, 400],
      [399, 399],
    ]) {
      const given = { filter: { ...filter, header: null, text: null }, span, format: 'ndjson', bodies: true } as const;
      let text = '';
      for await (const part of exportText(parts, given, undefined, limit)) text += part;
      const found = text
        .trim()
        .split('\n')
        .map((line) => JSON.parse(line).id);
      expect([found.length, new Set(found).size]).toEqual([expected, expected]);
    }
  });
});

describe('a client that reads slowly', () => {
  test('makes the export wait: what it has not read yet is not read from the database', async () => {
    const large = await app.addWebhook({ secret: null });
    const query = `bodies=true&webhook_id=${large.id}`;
    const body = 'x'.repeat(1_000_000);
    for (let i = 0; i < 24; i++) await fetch(large.url, { method: 'POST', body });
    const socket = connect(app.port, '127.0.0.1');
    const head = `host: a\r\nauthorization: Bearer ${viewer.token}\r\nconnection: close`;
    socket.write(`GET /api/v1/events/export?${query} HTTP/1.1\r\n${head}\r\n\r\n`);
    await new Promise((resolve) => socket.once('readable', resolve));
    // Another export reads all events in this time, so this one could have read them too.
    expect((await (await get(query)).text()).length).toBeGreaterThan(24_000_000);
    await app.sql(
      `update events set body = 'changed' where id in (
        select id from events where webhook_id = $1 order by received_at, id limit 6)`,
      large.id,
    );
    const chunks: string[] = [];
    socket.setEncoding('latin1').on('data', (chunk: string) => chunks.push(chunk));
    // The connection closes after the last chunk.
    await once(socket, 'end');
    const text = chunks.join('');
    expect(text.endsWith('0\r\n\r\n')).toBe(true);
    expect(text.match(/"body":"changed"/g)?.length).toBe(6);
    expect(text.match(/"body":"x/g)?.length).toBe(18);
    socket.destroy();
  });

  test('and reads nothing is disconnected by a drain, without the end of the export', async () => {
    const own = await startTestApp({ DRAIN_SECONDS: 1 });
    const person = await addPerson(own, 'viewer');
    const large = await own.addWebhook({ secret: null });
    const body = 'x'.repeat(1_000_000);
    for (let i = 0; i < 24; i++) expect((await fetch(large.url, { method: 'POST', body })).status).toBe(202);
    const socket = connect(own.port, '127.0.0.1').setEncoding('latin1');
    // A connection that is cut while it has unread bytes may end with a reset.
    socket.on('error', () => {});
    const closed = new Promise((resolve) => socket.once('close', resolve));
    socket.write(
      `GET /api/v1/events/export?bodies=true HTTP/1.1\r\nhost: a\r\nauthorization: Bearer ${person.token}\r\n\r\n`,
    );
    await new Promise((resolve) => socket.once('readable', resolve));
    let text: string = socket.read();
    const lines = own.logLines.length;
    await own.stop();
    socket.on('data', (chunk) => {
      text += chunk;
    });
    await closed;
    expect(text).toMatch(/^HTTP\/1\.1 200 /);
    expect(text.length).toBeLessThan(24_000_000);
    expect(text).not.toMatch(/\r\n0\r\n\r\n$/);
    const failures = own.logLines.slice(lines).filter((line) => JSON.parse(line).level >= 50);
    expect(failures).toEqual([]);
  });

  test('holds its own places, and none of other users', async () => {
    const large = await app.addWebhook({ secret: null });
    for (let i = 0; i < 12; i++) await fetch(large.url, { method: 'POST', body: 'x'.repeat(1_000_000) });
    const other = await addPerson(app, 'viewer');
    const query = `bodies=true&webhook_id=${large.id}`;
    const slow = await Promise.all(Array.from({ length: USER_EXPORTS_MAX }, () => exportUnread(viewer, query)));
    const [refused, served] = await Promise.all([get(query), exportUnread(other, query)]);
    expect([refused.status, refused.headers.get('retry-after')]).toEqual([429, '10']);
    expect(await refused.json()).toMatchObject({ code: 'user_exports_full' });
    for (const socket of [...slow, served]) socket.destroy();
    await until(async () => (await get('')).status === 200);
  });

  test('and reads nothing for CLIENT_UNREAD_SECONDS is disconnected', async () => {
    const own = await ofTest(startTestApp({ CLIENT_UNREAD_SECONDS: 1 }));
    const person = await addPerson(own, 'viewer');
    const large = await own.addWebhook({ secret: null });
    for (let i = 0; i < 24; i++) await fetch(large.url, { method: 'POST', body: 'x'.repeat(1_000_000) });
    const socket = await exportUnread(person, 'bodies=true', own.port);
    await until(async () => (await own.metric('weir_open_requests')) === 0);
    socket.destroy();
  });

  test('that leaves makes room for the next export', async () => {
    for (let i = 0; i < USER_EXPORTS_MAX * 2; i++) {
      const gone = new AbortController();
      await until(async () => {
        const response = await fetch(`${app.url}/api/v1/events/export?bodies=true`, {
          headers: { authorization: `Bearer ${viewer.token}` },
          signal: gone.signal,
        });
        return response.status === 200;
      });
      gone.abort();
    }
    await until(async () => (await get('')).status === 200);
  });
});
