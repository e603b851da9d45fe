/** Clients that do not read their responses: a request is in progress until the socket has accepted its response. */
import { connect, type Socket } from 'node:net';
import { afterEach, beforeAll, expect, test } from 'vitest';
import { startTestApp, type TestApp } from '../../helpers/app.ts';
import { addPerson } from '../../helpers/people.ts';
import { isListening } from '../../helpers/processes.ts';
import { RawClient, signatureOf } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

/** More than the kernel buffers for a client that does not read. */
const BODY_BYTES = 16_777_216;
const REQUESTS_MAX = 2;

const settings = {
  CLIENT_REQUESTS_MAX: REQUESTS_MAX,
  WEBHOOK_MAX_PAYLOAD_BYTES: BODY_BYTES,
  CLIENT_BODY_BYTES_HELD_MAX: BODY_BYTES,
  // A body exists twice for a moment.
  BODY_BYTES_HELD_MAX: 3 * BODY_BYTES,
};
const app = shared(() => startTestApp(settings));
const viewer = shared(() => addPerson(app, 'viewer'));
let path: string;
const sockets: Socket[] = [];

/** Stores an event with a large body; returns the path of the body. */
async function storeLarge(to: TestApp): Promise<string> {
  const webhook = await to.addWebhook();
  const body = 'x'.repeat(BODY_BYTES);
  const headers = { 'x-hub-signature-256': signatureOf(webhook.secret!, body) };
  const stored = await fetch(webhook.url, { method: 'POST', body, headers });
  expect(stored.status).toBe(202);
  return `/api/v1/events/${((await stored.json()) as { id: string }).id}/body`;
}

beforeAll(async () => {
  path = await storeLarge(app);
});
afterEach(async () => {
  for (const socket of sockets.splice(0)) socket.destroy();
  await until(async () => (await openRequests()) === 0);
});

const openRequests = () => app.metric('weir_open_requests');
const ask = (of: string, token = viewer.token) =>
  `GET ${of} HTTP/1.1\r\nHost: x\r\nAuthorization: Bearer ${token}\r\n\r\n`;

/** Requests the large body; resolves when its response has started, and reads no more of it. */
async function askUnread(): Promise<Socket> {
  const socket = connect({ port: app.port, host: '127.0.0.1' });
  sockets.push(socket);
  socket.on('error', () => {});
  socket.write(ask(path));
  await new Promise((resolve) => socket.once('readable', resolve));
  return socket;
}

async function healthz(from: string): Promise<number> {
  const client = await RawClient.connect(app.port, from);
  void client.send('GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n');
  const { status } = (await client.answer())!;
  client.destroy();
  return status;
}

/** Reads until the body is complete. */
function readAll(socket: Socket): Promise<number> {
  return new Promise((resolve) => {
    let bytes = 0;
    let head = '';
    let headBytes = 0;
    socket.on('data', (chunk) => {
      bytes += chunk.length;
      if (headBytes === 0) {
        head += chunk.toString('latin1');
        headBytes = head.indexOf('\r\n\r\n') + 4;
      }
      if (bytes - headBytes >= BODY_BYTES) resolve(bytes - headBytes);
    });
    socket.resume();
  });
}

test('a client that does not read is counted until it reads its complete response', async () => {
  const unread = [await askUnread(), await askUnread()];
  expect(await openRequests()).toBe(REQUESTS_MAX);
  expect(await healthz('127.0.0.1')).toBe(503);
  expect(await healthz('127.0.0.2')).toBe(200);
  expect(await Promise.all(unread.map(readAll))).toEqual([BODY_BYTES, BODY_BYTES]);
  await until(async () => (await openRequests()) === 0);
  expect(await healthz('127.0.0.1')).toBe(200);
});

test('a draining process waits until a client has read its whole response', async () => {
  const leaving = await startTestApp({ ...settings, DRAIN_SECONDS: 60 });
  const [of, { token }] = [await storeLarge(leaving), await addPerson(leaving, 'viewer')];
  const socket = connect({ port: leaving.port, host: '127.0.0.1' });
  sockets.push(socket);
  await new Promise((resolve) => socket.once('connect', resolve));
  const stopped = leaving.stop();
  await until(async () => !(await isListening(leaving.port)));
  socket.write(ask(of, token));
  await new Promise((resolve) => socket.once('readable', resolve));
  expect(await leaving.metric('weir_open_requests')).toBe(1);
  expect(await readAll(socket)).toBe(BODY_BYTES);
  await stopped;
});

test('a client that disconnects with an unread response is no longer counted', async () => {
  await askUnread();
  await askUnread();
  expect(await healthz('127.0.0.1')).toBe(503);
  for (const socket of sockets) socket.destroy();
  await until(async () => (await healthz('127.0.0.1')) === 200);
});

test('requests behind an unread response end the connection, so that responses do not accumulate', async () => {
  const socket = await askUnread();
  expect(await openRequests()).toBe(1);
  const closed = new Promise((resolve) => socket.once('close', resolve));
  for (let i = 0; i < 100; i++) socket.write(ask('/healthz'));
  socket.resume();
  await closed;
  await until(async () => (await openRequests()) === 0);
});

test.each(['HEAD /healthz', 'OPTIONS /api/v1/session', 'GET /'])(
  'a connection that sends %s without end and reads no response is closed',
  async (line) => {
    const socket = connect({ port: app.port, host: '127.0.0.1' }).pause();
    sockets.push(socket);
    const cut = new Promise<string | undefined>((resolve) => {
      socket.on('error', ({ code }: NodeJS.ErrnoException) => resolve(code));
    });
    // Few in a segment: none of these responses has a body, and the kernel accepts more of them than are sent here.
    const some = `${line} HTTP/1.1\r\nHost: x\r\n\r\n`.repeat(10);
    let going = true;
    void cut.then(() => {
      going = false;
    });
    for (let sent = 0; going && sent < 20_000; sent += 10) {
      await Promise.race([cut, new Promise((resolve) => socket.write(some, resolve))]);
      await new Promise((resolve) => setImmediate(resolve));
    }
    expect(['ECONNRESET', 'EPIPE']).toContain(await cut);
    await until(async () => (await openRequests()) === 0);
  },
);
