import { afterAll, afterEach, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp, type TestWebhook } from '../helpers/app.ts';
import { RawClient } from '../helpers/requests.ts';

let app: TestApp;
let webhook: TestWebhook;

const storedFrom = async () => {
  const [row] = await app.database.query<{ ip: string }>({
    text: 'select host(source_ip) as ip from events order by received_at desc, id desc limit 1',
  });
  await app.database.query({ text: 'delete from events' });
  return row?.ip;
};

/** Sends one event with these fields, after an optional preamble of the connection; the address that was stored. */
async function senderBy(fields: string[], preamble: Uint8Array = new Uint8Array(0)): Promise<string | undefined> {
  const client = await RawClient.connect(app.port);
  const lines = [`POST ${webhook.path} HTTP/1.1`, 'Host: x', 'Content-Length: 2', ...fields];
  await client.send(Buffer.concat([preamble, Buffer.from(`${lines.join('\r\n')}\r\n\r\n{}`)]));
  expect((await client.answer())?.status).toBe(202);
  client.destroy();
  return storedFrom();
}

/** Version 2 of the PROXY protocol: PROXY, TCP over IPv4, from 203.0.113.5:1234 to 127.0.0.1:80. */
function proxyPreamble(source = [203, 0, 113, 5]): Uint8Array {
  const signature = Buffer.from('\r\n\r\n\0\r\nQUIT\n', 'latin1');
  return Buffer.concat([signature, Buffer.of(0x21, 0x11, 0, 12, ...source, 127, 0, 0, 1, 4, 210, 0, 80)]);
}

describe('a trusted proxy', () => {
  beforeAll(async () => {
    app = await startTestApp({ TRUSTED_PROXIES: '127.0.0.0/8, 10.0.0.0/8, 2001:db8::/64' });
    webhook = await app.addWebhook({ secret: null });
  });
  afterAll(() => app.stop());

  test.each([
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
    ['only trusted ones', ['X-Forwarded-For: 10.0.0.9'], '10.0.0.9'],
    ['Forwarded', ['Forwarded: for=6.6.6.6, for="[2001:db9::2]:80";proto=https'], '2001:db9::2'],
    ['Forwarded that hides', ['Forwarded: for=_hidden'], '127.0.0.1'],
    ['both, agreeing', ['Forwarded: for=203.0.113.1', 'X-Forwarded-For: 203.0.113.1'], '203.0.113.1'],
    // A client behind a proxy that writes the one field sends the other by itself.
    ['a Forwarded of the client', ['Forwarded: for=6.6.6.6', 'X-Forwarded-For: 203.0.113.1'], '127.0.0.1'],
    ['a Forwarded without sense', ['Forwarded: for=unknown', 'X-Forwarded-For: 203.0.113.1'], '203.0.113.1'],
    ['an X-Forwarded-For without sense', ['X-Forwarded-For: x', 'Forwarded: for=203.0.113.1'], '203.0.113.1'],
  ])('that tells %s is believed as far as it can be', async (_what, fields, expected) => {
    expect(await senderBy(fields)).toBe(expected);
  });

  test.each([
    ['alone', [], '203.0.113.5'],
    ['before a field that the client sent', ['X-Forwarded-For: 6.6.6.6'], '203.0.113.5'],
  ])('is believed when it speaks the PROXY protocol, %s', async (_how, fields, expected) => {
    expect(await senderBy(fields, proxyPreamble())).toBe(expected);
  });

  test('may stand before another one', async () => {
    expect(await senderBy(['X-Forwarded-For: 203.0.113.1'], proxyPreamble([10, 0, 0, 7]))).toBe('203.0.113.1');
  });
});

describe('a peer that is not trusted', () => {
  beforeAll(async () => {
    app = await startTestApp({ TRUSTED_PROXIES: '10.0.0.0/8' });
    webhook = await app.addWebhook({ secret: null });
  });
  afterAll(() => app.stop());
  afterEach(storedFrom);

  test.each([
    ['X-Forwarded-For', ['X-Forwarded-For: 203.0.113.1']],
    ['Forwarded', ['Forwarded: for=203.0.113.1']],
    ['a trusted address', ['X-Forwarded-For: 10.0.0.1']],
  ])('is not believed when it sends %s', async (_what, fields) => {
    expect(await senderBy(fields)).toBe('127.0.0.1');
  });

  test('is not believed when it speaks the PROXY protocol', async () => {
    expect(await senderBy([], proxyPreamble())).toBe('127.0.0.1');
  });
});
