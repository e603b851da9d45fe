/** The limits of open connections: of a process, and of one client address. */
import { once } from 'node:events';
import { connect, createServer, type Socket } from 'node:net';
import { Worker } from 'node:worker_threads';
import { describe, expect, onTestFinished, test } from 'vitest';
import { Clients } from '../../../server/base/http/clients.ts';
import { allowedConnections, ConnectionLimit, READ_PAUSE_MS } from '../../../server/base/http/connections.ts';
import { ByteBudget, SlabArena } from '../../../server/base/http/memory.ts';
import { readPeers } from '../../../server/base/http/peers.ts';
import { HttpServer } from '../../../server/base/http/server.ts';
import { UnreadLimit } from '../../../server/base/http/unread.ts';
import { parseNetwork } from '../../../server/model/address.ts';
import { startTestApp } from '../../helpers/app.ts';
import { listening } from '../../helpers/ports.ts';
import { isListening } from '../../helpers/processes.ts';
import { RawClient } from '../../helpers/requests.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';

const destroyAll = (clients: readonly RawClient[]) => {
  for (const client of clients) client.destroy();
};
const healthz = 'GET /healthz HTTP/1.1\r\nHost: x\r\n\r\n';

describe('CONNECTIONS_MAX', () => {
  const MAX = 20;
  /** 90 % of it. */
  const CROWDED = 18;
  const app = shared(() => startTestApp({ CONNECTIONS_MAX: MAX }));

  test('at the limit connections are served; above it new ones are closed, counted and logged; then accepted again', async () => {
    const open: RawClient[] = [];
    onTestFinished(() => destroyAll(open));
    while (open.length < MAX) open.push(await RawClient.connect(app.port));
    await until(async () => (await app.metric('weir_connections')) === MAX);
    for (let i = 0; i < 3; i++) {
      const refused = await RawClient.connect(app.port);
      void refused.send(healthz);
      expect(await refused.answer()).toBeNull();
    }
    expect(await app.metric('weir_connections_refused_total')).toBe(3);
    expect(app.app.sample().totals.connections_refused).toBe(3);
    expect(app.logLines.find((line) => line.includes('"event":"connections_limit"'))).toContain(
      '"limit":"process","client":"127.0.0.1"',
    );
    expect(await app.metric('weir_connections')).toBe(MAX);

    const first = open.shift()!;
    void first.send(healthz);
    expect((await first.answer())!.status).toBe(200);
    await first.ended();
    const next = await RawClient.connect(app.port);
    open.push(next);
    void next.send(healthz);
    expect((await next.answer())!.status).toBe(200);
  });

  test('near the limit each response closes its connection, and below it stays open', async () => {
    await until(async () => (await app.metric('weir_connections')) === 0);
    const open: RawClient[] = [];
    onTestFinished(() => destroyAll(open));
    while (open.length <= CROWDED) open.push(await RawClient.connect(app.port));
    await until(async () => (await app.metric('weir_connections')) === CROWDED + 1);
    const [one, other] = open as [RawClient, RawClient];
    void one.send(healthz);
    expect((await one.answer())!.headers.connection).toBe('close');
    await one.ended();
    void other.send(healthz);
    expect((await other.answer())!.headers.connection).toBeUndefined();
    void other.send(healthz);
    expect((await other.answer())!.status).toBe(200);
  });

  test.each([
    ['HEAD', 'HEAD /healthz', 200, '15'],
    ['204', 'OPTIONS /api/v1/webhooks', 204, undefined],
  ])('near the limit a response without a body closes its connection too: %s', async (method, line, status, length) => {
    await until(async () => (await app.metric('weir_connections')) === 0);
    const open: RawClient[] = [];
    onTestFinished(() => destroyAll(open));
    while (open.length <= CROWDED) open.push(await RawClient.connect(app.port));
    await until(async () => (await app.metric('weir_connections')) === CROWDED + 1);
    void open[0]!.send(`${line} HTTP/1.1\r\nHost: x\r\n\r\n`);
    const { status: given, headers } = (await open[0]!.answer({ toHead: method === 'HEAD' }))!;
    expect([given, headers.connection, headers['content-length']]).toEqual([status, 'close', length]);
    await open[0]!.ended();
  });
});

test.each([
  // The default, by the limit of open files.
  [undefined, 400, 272],
  [undefined, 1_024, 896],
  [undefined, 4_096, 3_584],
  [undefined, 20_000, 18_976],
  [undefined, 1_000_000_000, 65_536],
  [undefined, Number.POSITIVE_INFINITY, 65_536],
  // Too few descriptors for the reserve.
  [undefined, 100, 25],
  // CONNECTIONS_MAX
  [200, 400, 200],
  [300, 400, 272],
  [100_000, 1_000_000, 100_000],
])('with CONNECTIONS_MAX %s and %s open files a process takes %s connections', (wanted, openFiles, allowed) => {
  expect(allowedConnections(wanted, openFiles)).toBe(allowed);
});

describe('CLIENT_CONNECTIONS_MAX', () => {
  const MAX = 8;
  const clients = new Clients([parseNetwork('198.51.100.0/24')!], 'x-forwarded-for');
  /** A peer as the server sees it. */
  const peer = (bytes: number[]) =>
    clients.connected({ getRemoteAddress: () => Uint8Array.from(bytes).buffer } as never, true);
  const ipv6 = (...parts: number[]) => peer(parts.flatMap((part) => [part >> 8, part & 255]));
  const stranger = peer([203, 0, 113, 7]);

  /** A limit whose table of the kernel the test writes. */
  function limitOf(counted = 0, options: Partial<ConstructorParameters<typeof ConnectionLimit>[0]> = {}) {
    const refused: string[] = [];
    let nowMs = 0;
    let reads = 0;
    const table = { connections: counted };
    const limit = new ConnectionLimit({
      processMax: 1_000,
      clientMax: MAX,
      host: '127.0.0.1',
      port: () => 1,
      nowMs: () => nowMs,
      onRefused: (which, { address }) => refused.push(`${which} ${address}`),
      read: async () => {
        reads++;
        return new Map([[stranger.network, { connections: table.connections, unreadBytes: 0 }]]);
      },
      ...options,
    });
    const admitted = (of: typeof stranger, count: number) =>
      Array.from({ length: count }, () => limit.admits(of, 1)).filter(Boolean).length;
    const pass = async (ms: number) => {
      await new Promise(setImmediate);
      nowMs += ms;
    };
    return { admitted, refused, table, pass, reads: () => reads };
  }

  test('admits as many connections of an address, and refuses one more', () => {
    const { admitted, refused } = limitOf();
    expect(admitted(stranger, MAX + 1)).toBe(MAX);
    expect(refused).toEqual(['client 203.0.113.7']);
    expect(admitted(peer([203, 0, 113, 8]), MAX)).toBe(MAX);
  });

  test('counts the addresses of an IPv6 /64 together', () => {
    const { admitted } = limitOf();
    expect(admitted(ipv6(0x2001, 0xdb9, 0, 0, 0, 0, 0, 1), MAX - 1)).toBe(MAX - 1);
    expect(admitted(ipv6(0x2001, 0xdb9, 0, 0, 9, 9, 9, 9), 2)).toBe(1);
    expect(admitted(ipv6(0x2001, 0xdb9, 0, 1, 0, 0, 0, 1), 2)).toBe(2);
  });

  test.each([
    ['a trusted proxy', peer([198, 51, 100, 9])],
    ['loopback', peer([127, 0, 0, 1])],
    ['loopback of IPv6', ipv6(0, 0, 0, 0, 0, 0, 0, 1)],
    ['10.0.0.0/8', peer([10, 1, 2, 3])],
    ['172.16.0.0/12', peer([172, 16, 0, 1])],
    ['192.168.0.0/16', peer([192, 168, 0, 1])],
    ['a private address of IPv6', ipv6(0xfd00, 0, 0, 0, 0, 0, 0, 1)],
  ])('does not apply to %s', (_what, exempt) => {
    expect(limitOf().admitted(exempt, 5 * MAX)).toBe(5 * MAX);
  });

  test.each([
    [1_000, 1_024],
    [8_000, 2_000],
  ])('is by default a quarter of CONNECTIONS_MAX, at least 1,024: of %i connections %i', (processMax, expected) => {
    expect(limitOf(0, { clientMax: undefined, processMax }).admitted(stranger, 8_000)).toBe(expected);
  });

  test('a client whose connections were closed since may open others; one whose connections are open may not', async () => {
    const { admitted, pass, reads, table } = limitOf(1);
    expect(admitted(stranger, MAX + 1)).toBe(MAX);
    await pass(READ_PAUSE_MS);
    // All but one are closed. The one that was opened while the table was read counts beside it.
    table.connections = MAX;
    expect(admitted(stranger, MAX)).toBe(MAX - 2);
    await pass(READ_PAUSE_MS - 1);
    // All are open.
    table.connections = 0;
    expect(admitted(stranger, 3)).toBe(0);
    expect(reads()).toBe(2);
    await pass(1);
    expect(admitted(stranger, 1)).toBe(0);
    await pass(0);
    expect(admitted(stranger, 1)).toBe(1);
  });

  test('the table of the kernel is read at most once a second, however many connections are refused', async () => {
    const { admitted, pass, reads } = limitOf(MAX);
    for (let i = 0; i < 50; i++) {
      admitted(stranger, 100);
      await pass(100);
    }
    expect(reads()).toBeLessThanOrEqual(6);
  });

  test('the table of the kernel tells the open connections of each client at a port', async () => {
    const server = createServer({ allowHalfOpen: true }, (socket) => socket.on('error', () => {}));
    const port = await listening(server);
    const sockets: Socket[] = [];
    onTestFinished(() => {
      for (const socket of sockets) socket.destroy();
    });
    const open = async (localAddress: string, count: number) => {
      for (let i = 0; i < count; i++) {
        const socket = connect({ host: '127.0.0.1', port, localAddress }).on('error', () => {});
        sockets.push(socket);
        await once(socket, 'connect');
      }
    };
    const counts = async () => {
      const peers = await readPeers('127.0.0.1', port);
      return ['127.0.0.5', '127.0.0.6'].map((network) => peers.get(network)?.connections ?? 0);
    };
    await open('127.0.0.5', 3);
    await open('127.0.0.6', 2);
    expect(await counts()).toEqual([3, 2]);
    // The client closes its side, and the server does not.
    sockets[0]!.end();
    await new Promise(setImmediate);
    expect(await counts()).toEqual([3, 2]);
    sockets[1]!.resetAndDestroy();
    await until(async () => (await counts())[0] === 2);
    expect((await readPeers('127.0.0.1', port === 1 ? 2 : 1)).size).toBe(0);
    const ofName = await readPeers('localhost', port);
    expect(ofName.get('127.0.0.6')?.connections).toBe(2);
  });
});

/** A server with one route, without the rest of a process. */
function smallServer(): HttpServer {
  const budget = new ByteBudget(1_048_576);
  const none = { host: '127.0.0.1', port: () => 0, nowMs: () => 0 };
  const server = new HttpServer(
    [{ method: 'GET', path: '/healthz', handle: (exchange) => exchange.answer(200, 'text/plain', 'ok') }],
    {
      memory: { budget, arena: new SlabArena(budget), clientBytesMax: 1 },
      clients: new Clients([], 'x-forwarded-for'),
      connections: { admits: () => true, crowdedAbove: 100 },
      settings: {
        HEADER_BYTES_MAX: 1_024,
        CLIENT_REQUESTS_MAX: 10,
        CLIENT_UNREAD_SECONDS: 1,
        CHUNKED_BODIES: 'refuse',
      },
      unread: new UnreadLimit({ ...none, bytesMax: 1 }),
      prepare: () => {},
      onFinished: () => {},
      outageProblem: () => null,
      refuse: () => {},
      onFailure: () => {},
    },
  );
  onTestFinished(() => server.close());
  return server;
}

test('a connection that waits to be accepted when the listener closes is served', async () => {
  const server = smallServer();
  const port = await server.listen('127.0.0.1', 0);
  const connected = new Int32Array(new SharedArrayBuffer(4));
  const client = new Worker(
    `const { parentPort, workerData: { port, connected, healthz } } = require('node:worker_threads');
     parentPort.once('message', () => {
       const socket = require('node:net').connect(port, '127.0.0.1', () => {
         socket.write(healthz);
         Atomics.store(connected, 0, 1);
         Atomics.notify(connected, 0);
       });
       socket.once('data', (answer) => parentPort.postMessage(String(answer)));
       socket.once('error', ({ code }) => parentPort.postMessage(code));
     });
     parentPort.postMessage('ready');`,
    { eval: true, workerData: { port, connected, healthz } },
  );
  onTestFinished(() => void client.terminate());
  await once(client, 'message');
  client.postMessage('connect');
  Atomics.wait(connected, 0, 0);
  const closed = server.stopListening();
  expect(String(await once(client, 'message'))).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\nconnection: close\r\n/is);
  await closed;
  expect(await isListening(port)).toBe(false);
});

test('the listener of a busy process, which has no short turn, closes within a second or two', async () => {
  const server = smallServer();
  await server.listen('127.0.0.1', 0);
  const TURN_MS = 50;
  const turn = () => {
    const endMs = performance.now() + TURN_MS;
    while (performance.now() < endMs);
    busy = setImmediate(turn);
  };
  let busy = setImmediate(turn);
  const startedMs = performance.now();
  await server.stopListening().finally(() => clearImmediate(busy));
  expect(performance.now() - startedMs).toBeLessThan(2_500);
});

test('a request that arrives while a draining process stands still is answered before its connection is closed', async () => {
  const app = await startTestApp({ DRAIN_SECONDS: 60 });
  const isStopped = new Int32Array(new SharedArrayBuffer(4));
  // In a thread: this one stands still.
  const client = new Worker(
    `const { parentPort, workerData: { port, isStopped, healthz } } = require('node:worker_threads');
     const socket = require('node:net').connect(port, '127.0.0.1', () => socket.write(healthz));
     socket.once('data', () => {
       parentPort.postMessage('ready');
       Atomics.wait(isStopped, 0, 0);
       socket.write(healthz);
       socket.once('data', (answer) => parentPort.postMessage(String(answer)));
       socket.once('error', ({ code }) => parentPort.postMessage(code));
     });`,
    { eval: true, workerData: { port: app.port, isStopped, healthz } },
  );
  onTestFinished(() => void client.terminate());
  await once(client, 'message');
  const stopped = app.stop();
  await until(async () => !(await isListening(app.port)));
  const answered = once(client, 'message');
  Atomics.store(isStopped, 0, 1);
  Atomics.notify(isStopped, 0);
  // Longer than connections may be idle.
  Atomics.wait(new Int32Array(new SharedArrayBuffer(4)), 0, 0, 1_000);
  expect(String(await answered)).toMatch(/^HTTP\/1\.1 200 OK\r\n.*\r\nconnection: close\r\n/is);
  await stopped;
});

/** A process that drains until `finish` is called. */
async function drainingApp() {
  const app = await startTestApp({ DRAIN_SECONDS: 60 });
  const { path } = await app.addWebhook({ secret: null });
  const [open, first, second] = await Promise.all([1, 2, 3].map(() => RawClient.connect(app.port)));
  onTestFinished(() => destroyAll([open!, first!, second!]));
  await open!.send(`POST ${path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{`);
  await until(async () => (await app.metric('weir_open_requests')) === 1);
  const stopped = app.stop();
  await until(async () => !(await isListening(app.port)));
  const finish = async () => {
    await open!.send('}');
    expect((await open!.answer())!.status).toBe(202);
    await stopped;
  };
  return { first: first!, second: second!, finish };
}

test('a draining process does not reset the connection of an early response while the body arrives', async () => {
  const unknown = '/in/2f1c0d7e-0000-4000-8000-000000000000';
  const post = (bytes: number) => `POST ${unknown} HTTP/1.1\r\nHost: x\r\nContent-Length: ${bytes}\r\n\r\n`;
  const { first: late, second: small, finish } = await drainingApp();

  await late.send(post(1_000_000) + 'x'.repeat(500_000));
  const early = (await late.answer())!;
  expect([early.status, early.headers.connection]).toEqual([404, undefined]);
  await late.send('x'.repeat(500_000));
  await late.send(healthz);
  const next = (await late.answer())!;
  expect([next.status, next.headers.connection]).toEqual([200, 'close']);

  await small.send(`${post(2)}{}`);
  const whole = (await small.answer())!;
  expect([whole.status, whole.headers.connection]).toEqual([404, 'close']);
  await finish();
});

test('a draining process asks the reader of a large response to close its connection', async () => {
  const { first, finish } = await drainingApp();
  await first.send('GET /api/v1/openapi.json HTTP/1.1\r\nHost: x\r\n\r\n');
  const { status, headers, body } = (await first.answer())!;
  expect([status, headers.connection, JSON.parse(body.toString()).openapi]).toEqual([200, 'close', '3.1.0']);
  await finish();
});
