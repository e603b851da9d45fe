import { once } from 'node:events';
import { connect } from 'node:net';
import { afterEach, describe, expect, onTestFinished, test } from 'vitest';
import { Clients } from '../../../server/base/http/clients.ts';
import { parseNetwork } from '../../../server/model/address.ts';
import { type Overrides, startTestApp, type TestApp, type TestWebhook } from '../../helpers/app.ts';
import { RawClient } from '../../helpers/requests.ts';
import { until } from '../../helpers/wait.ts';

let app: TestApp;
let webhook: TestWebhook;

const storedFrom = async () => {
  const [row] = await app.sql<{ ip: string }>(
    'select host(source_ip) as ip from events order by received_at desc, id desc limit 1',
  );
  await app.sql('delete from events');
  return row?.ip;
};

/** Sends one event with these fields, after an optional preamble of the connection; returns the stored address. */
async function senderBy(fields: string[], preamble: Uint8Array = new Uint8Array(0)): Promise<string | undefined> {
  const client = await RawClient.connect(app.port);
  const lines = [`POST ${webhook.path} HTTP/1.1`, 'Host: x', 'Content-Length: 2', ...fields];
  await client.send(Buffer.concat([preamble, Buffer.from(`${lines.join('\r\n')}\r\n\r\n{}`)]));
  expect((await client.answer())?.status).toBe(202);
  client.destroy();
  return storedFrom();
}

/** Version 2 of the PROXY protocol: PROXY, TCP over IPv4, from 203.0.113.5:1234 to 127.0.0.1:80. */
const preamble = Buffer.concat([
  Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1'),
  Buffer.of(0x21, 0x11, 0, 12, 203, 0, 113, 5, 127, 0, 0, 1, 4, 210, 0, 80),
]);

const TRUSTED_PROXIES = '127.0.0.0/8, 10.0.0.0/8, 2001:db8::/64';

async function start(settings: Overrides): Promise<void> {
  app = await startTestApp({ TRUSTED_PROXIES, ...settings });
  webhook = await app.addWebhook({ secret: null });
}

type Given = [what: string, fields: string[], expected: string, proxied?: number[]];

/** The client of a request from 127.0.0.1, whose connection may begin with the address `proxied`. */
function clientOf(
  forwardedHeader: ConstructorParameters<typeof Clients>[1],
  [, fields, , proxied = []]: Given,
): string {
  const clients = new Clients(
    TRUSTED_PROXIES.split(', ').map((text) => parseNetwork(text)!),
    forwardedHeader,
  );
  const res = {
    getRemoteAddress: () => Uint8Array.of(127, 0, 0, 1).buffer,
    getProxiedRemoteAddress: () => Uint8Array.from(proxied).buffer,
  };
  const headers = fields.flatMap((field) => [
    field.slice(0, field.indexOf(':')).toLowerCase(),
    field.slice(field.indexOf(':') + 1).trim(),
  ]);
  return clients.of(res as never, headers).address;
}

const PROXIED = [203, 0, 113, 5];

test.each<Given>([
  ['nothing', [], '127.0.0.1'],
  ['one address', ['X-Forwarded-For: 203.0.113.1'], '203.0.113.1'],
  ['several addresses', ['X-Forwarded-For: 6.6.6.6, 203.0.113.1'], '203.0.113.1'],
  ['other proxies behind it', ['X-Forwarded-For: 6.6.6.6, 203.0.113.1, 10.1.2.3'], '203.0.113.1'],
  ['repeated fields', ['X-Forwarded-For: 6.6.6.6', 'X-Forwarded-For: 203.0.113.1'], '203.0.113.1'],
  ['an IPv6 address', ['X-Forwarded-For: 2001:DB9::1'], '2001:db9::1'],
  ['a mapped address', ['X-Forwarded-For: ::ffff:203.0.113.1'], '203.0.113.1'],
  ['an address with a port', ['X-Forwarded-For: 203.0.113.1:5555'], '203.0.113.1'],
  ['no address', ['X-Forwarded-For: unknown'], '127.0.0.1'],
  ['an empty field', ['X-Forwarded-For:'], '127.0.0.1'],
  ['only a trusted one', ['X-Forwarded-For: 10.0.0.9'], '10.0.0.9'],
  ['only trusted ones', ['X-Forwarded-For: 10.0.0.9,10.0.0.8'], '10.0.0.9'],
  ['an unreadable one behind it', ['X-Forwarded-For: 203.0.113.1, unknown, 10.0.0.2'], '10.0.0.2'],
  ['an address that was seen as a peer', ['X-Forwarded-For: 203.0.113.1, 127.0.0.1'], '203.0.113.1'],
  // The proxy forwards these fields unchanged.
  ['and a Forwarded', ['Forwarded: for=6.6.6.6', 'X-Forwarded-For: 203.0.113.1'], '203.0.113.1'],
  ['a Forwarded alone', ['Forwarded: for=6.6.6.6'], '127.0.0.1'],
  ['a preamble of the PROXY protocol', [], '127.0.0.1', PROXIED],
])('by default a trusted proxy gives the client in X-Forwarded-For: %s', (...given) => {
  expect(clientOf('x-forwarded-for', given)).toBe(given[2]);
});

test.each<Given>([
  ['the right-most address', ['Forwarded: for=6.6.6.6, for="[2001:db9::2]:80";proto=https'], '2001:db9::2'],
  ['a forged quote before it', ['Forwarded: for=", for="[2001:db9::2]:80"'], '2001:db9::2'],
  ['a hidden one', ['Forwarded: for=_hidden'], '127.0.0.1'],
  ['and an X-Forwarded-For', ['X-Forwarded-For: 6.6.6.6', 'Forwarded: for=203.0.113.1'], '203.0.113.1'],
  ['an X-Forwarded-For alone', ['X-Forwarded-For: 6.6.6.6'], '127.0.0.1'],
])('with FORWARDED_HEADER=forwarded a trusted proxy gives the client in Forwarded: %s', (...given) => {
  expect(clientOf('forwarded', given)).toBe(given[2]);
});

test.each<Given>([
  ['alone', [], '203.0.113.5', PROXIED],
  ['before a field', ['X-Forwarded-For: 6.6.6.6', 'Forwarded: for=6.6.6.6'], '203.0.113.5', PROXIED],
  ['a trusted address', ['X-Forwarded-For: 6.6.6.6'], '10.0.0.7', [10, 0, 0, 7]],
  ['a field without it', ['X-Forwarded-For: 6.6.6.6'], '127.0.0.1'],
])('with FORWARDED_HEADER=proxy-protocol a trusted proxy gives the client by the PROXY protocol: %s', (...given) => {
  expect(clientOf('proxy-protocol', given)).toBe(given[2]);
});

describe.each<[header: string, trusted: string, byField: string, byPreamble: string]>([
  ['x-forwarded-for', TRUSTED_PROXIES, '203.0.113.1', '127.0.0.1'],
  ['proxy-protocol', TRUSTED_PROXIES, '127.0.0.1', '203.0.113.5'],
  ['x-forwarded-for', '10.0.0.0/8', '127.0.0.1', '127.0.0.1'],
  ['proxy-protocol', '10.0.0.0/8', '127.0.0.1', '127.0.0.1'],
])('a server with FORWARDED_HEADER=%s and TRUSTED_PROXIES=%s', (header, trusted, byField, byPreamble) => {
  test('stores the address of a trusted proxy, and ignores what any other peer says', async () => {
    await start({ FORWARDED_HEADER: header, TRUSTED_PROXIES: trusted });
    onTestFinished(() => app.stop());
    expect(await senderBy(['X-Forwarded-For: 203.0.113.1', 'Forwarded: for=203.0.113.2'])).toBe(byField);
    expect(await senderBy([], preamble)).toBe(byPreamble);
  });
});

test('connections of several peers keep their addresses, also after all of them are closed', async () => {
  await start({});
  const open = new Map<string, RawClient>();
  const send = async (address: string) => {
    if (!open.has(address)) open.set(address, await RawClient.connect(app.port, address));
    const client = open.get(address)!;
    await client.send(`POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n{}`);
    expect((await client.answer())?.status).toBe(202);
    return storedFrom();
  };
  const close = (address: string) => {
    open.get(address)!.destroy();
    open.delete(address);
  };
  const connections = (count: number) => until(async () => (await app.metric('weir_connections')) === count);
  for (const address of ['127.0.0.1', '127.0.0.1', '127.0.0.2', '127.0.0.1', '127.0.0.3'])
    expect(await send(address)).toBe(address);
  close('127.0.0.1');
  close('127.0.0.3');
  await connections(1);
  for (const address of ['127.0.0.2', '127.0.0.4', '127.0.0.2']) expect(await send(address)).toBe(address);
  for (const address of ['127.0.0.2', '127.0.0.4']) close(address);
  await connections(0);
  for (const address of ['127.0.0.5', '127.0.0.5', '127.0.0.6', '127.0.0.5']) expect(await send(address)).toBe(address);
  await app.stop();
});

describe('limits of one client', () => {
  afterEach(() => app.stop());

  /** A head that declares 60,000 bytes, and the first of them. */
  async function begin(from: string, sentBytes: number): Promise<RawClient> {
    const client = await RawClient.connect(app.port);
    const head = `POST ${webhook.path} HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${from}\r\nContent-Length: 60000\r\n\r\n`;
    await client.send(head + 'x'.repeat(sentBytes));
    return client;
  }
  const outcome = async (client: RawClient) => {
    const answer = (await client.answer())!;
    return [answer.status, JSON.parse(String(answer.body)).code];
  };

  test.each<[string, Overrides, number, string]>([
    ['requests under way', { CLIENT_REQUESTS_MAX: 2 }, 1, 'weir_open_requests'],
    [
      'bytes of unfinished bodies',
      { CLIENT_BODY_BYTES_HELD_MAX: 65_536, WEBHOOK_MAX_PAYLOAD_BYTES: 65_536 },
      30_000,
      'weir_body_bytes_held',
    ],
  ])(
    'apply to %s of an IPv6 /64 together, and an event stores the full address',
    async (_what, limit, bytes, gauge) => {
      await start(limit);
      const clients = [await begin('2001:db9::1', bytes), await begin('2001:db9:0:0:1::2', bytes)];
      const held = gauge === 'weir_open_requests' ? 2 : 2 * bytes;
      await until(async () => (await app.metric(gauge)) === held);
      const third = await begin('2001:db9::3', bytes);
      expect(await outcome(third)).toEqual([503, 'client_busy']);
      const neighbour = await begin('2001:db9:0:1::1', 60_000);
      expect(await outcome(neighbour)).toEqual([202, undefined]);
      expect(await storedFrom()).toBe('2001:db9:0:1::1');
      clients[0]!.destroy();
      await until(async () => (await app.metric(gauge)) < held);
      expect(await outcome(await begin('2001:db9::4', 60_000))).toEqual([202, undefined]);
      expect(await storedFrom()).toBe('2001:db9::4');
      for (const client of [...clients, third, neighbour]) client.destroy();
    },
  );

  test('apply while thousands of other addresses connect', async () => {
    await start({ CLIENT_REQUESTS_MAX: 1 });
    const other = connect({ host: '127.0.0.1', port: app.port });
    let answers = '';
    other.setEncoding('latin1').on('data', (text) => {
      answers += text;
    });
    /** Requests of 150 addresses at a time: unread responses would end the connection. */
    const visit = async (from: number, to: number) => {
      for (let sent = from; sent < to; sent += 150) {
        const addresses = Array.from({ length: 150 }, (_, i) => `2001:dba:0:${(sent + i).toString(16)}::1`);
        answers = '';
        other.write(
          addresses.map((at) => `GET /healthz HTTP/1.1\r\nHost: x\r\nX-Forwarded-For: ${at}\r\n\r\n`).join(''),
        );
        while (answers.split('{"status":"ok"}').length <= addresses.length) await once(other, 'data');
      }
    };
    await visit(0, 9_900);
    const first = await begin('2001:db9::1', 1);
    await until(async () => (await app.metric('weir_open_requests')) === 1);
    // More addresses than are stored.
    await visit(9_900, 10_050);
    expect(await outcome(await begin('2001:db9::2', 1))).toEqual([503, 'client_busy']);
    for (const client of [first, other]) client.destroy();
  });
});
