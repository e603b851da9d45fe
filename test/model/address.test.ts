import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import {
  addressFromBytes,
  addressFromText,
  forwardedHops,
  inetBytes,
  isWithin,
  parseNetwork,
  rateLimitKey,
  whyUnreachable,
} from '../../server/model/address.ts';

const networks = (...texts: string[]) => texts.map((text) => parseNetwork(text)!);
const mapped = (...v4: number[]) => Uint8Array.from([0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0xff, 0xff, ...v4]);
const anyAddress = fc.oneof(
  fc.uint8Array({ minLength: 4, maxLength: 4 }),
  fc.uint8Array({ minLength: 16, maxLength: 16 }),
);

describe('the address of a socket', () => {
  test.each([
    ['four bytes', Uint8Array.of(192, 0, 2, 1), '192.0.2.1'],
    ['IPv4 mapped into IPv6', mapped(192, 0, 2, 1), '192.0.2.1'],
    ['sixteen bytes', Uint8Array.of(0x20, 1, 0xd, 0xb8, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1), '2001:db8::1'],
    ['nothing, as of a Unix socket', new Uint8Array(0), '0.0.0.0'],
    ['an odd number of bytes', new Uint8Array(5), '0.0.0.0'],
  ])('from %s', (_what, bytes, expected) => {
    expect(addressFromBytes(bytes)).toBe(expected);
  });

  test('converts to its text and to the form that Postgres stores, for any value', () => {
    fc.assert(
      fc.property(anyAddress, (bytes) => {
        const address = addressFromBytes(bytes);
        expect(addressFromText(address)).toBe(address);
        const inet = inetBytes(address);
        expect(addressFromBytes(inet.subarray(4))).toBe(address);
        expect([...inet.subarray(0, 4)]).toEqual(inet.length === 8 ? [2, 32, 0, 4] : [3, 128, 0, 16]);
      }),
    );
  });
});

describe('an address given as text', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['192.0.2.1:8080', '192.0.2.1'],
    ['2001:DB8:0:0::1', '2001:db8::1'],
    ['[2001:db8::1]', '2001:db8::1'],
    ['[2001:db8::1]:443', '2001:db8::1'],
    ['::ffff:192.0.2.1', '192.0.2.1'],
    ['[::ffff:c000:201]:1', '192.0.2.1'],
    ['fe80::1%eth0', 'fe80::1'],
  ])('%s is %s', (text, expected) => {
    expect(addressFromText(text)).toBe(expected);
  });

  test.each([
    '',
    'unknown',
    '_hidden',
    'localhost',
    '192.0.2',
    '192.0.2.256',
    '0x7f.1',
    '010.0.0.1',
    '2130706433',
    '192.0.2.1:',
    '192.0.2.1:80:80',
    '[2001:db8::1',
    '[]',
    '2001:db8::1::',
    '192.0.2.1, 192.0.2.2',
    '192.0.2.1\0',
  ])('%j is invalid', (text) => {
    expect(addressFromText(text)).toBeNull();
  });

  test('is an address or invalid, for any input', () => {
    fc.assert(
      fc.property(fc.oneof(fc.string(), fc.string({ unit: fc.constantFrom(...'0123456789abcf.:[]%/"') })), (text) => {
        const address = addressFromText(text);
        if (address !== null) expect(addressFromBytes(inetBytes(address).subarray(4))).toBe(address);
      }),
    );
  });
});

describe('the rate-limit key', () => {
  test.each([
    ['192.0.2.1', '192.0.2.1'],
    ['2001:db8:1:2:3:4:5:6', '2001:db8:1:2::/64'],
    ['2001:db8:1:2::', '2001:db8:1:2::/64'],
    ['::1', '0:0:0:0::/64'],
  ])('of %s is %s', (address, expected) => {
    expect(rateLimitKey(address)).toBe(expected);
  });

  test('is equal within a /64 and differs outside of it', () => {
    const v6 = fc.uint8Array({ minLength: 16, maxLength: 16 }).filter((bytes) => bytes[0]! > 0);
    fc.assert(
      fc.property(v6, fc.nat(127), (bytes, bit) => {
        const other = bytes.slice();
        other[bit >> 3]! ^= 0x80 >> (bit & 7);
        fc.pre(other[0]! > 0);
        const [key, otherKey] = [bytes, other].map((each) => rateLimitKey(addressFromBytes(each)));
        expect(key === otherKey).toBe(bit >= 64);
      }),
    );
  });
});

describe('a network', () => {
  test.each([
    ['10.0.0.0/8', '10.255.0.1', true],
    ['10.0.0.0/8', '11.0.0.1', false],
    ['192.0.2.1', '192.0.2.1', true],
    ['192.0.2.1', '192.0.2.2', false],
    ['0.0.0.0/0', '203.0.113.9', true],
    ['0.0.0.0/0', '2001:db8::1', false],
    ['2001:db8::/32', '2001:db8:ffff::1', true],
    ['2001:db8::/32', '2001:db9::1', false],
    ['::ffff:192.0.2.0/120', '192.0.2.77', true],
    ['::ffff:192.0.2.1', '192.0.2.1', true],
  ])('%s and %s: %s', (network, address, expected) => {
    expect(isWithin(address, networks(network))).toBe(expected);
  });

  test.each(['', '10/8', '10.0.0/8', '10.0.0.0/33', '10.0.0.0/', '::/129', '10.0.0.0/8/8', 'proxy.example', '*'])(
    '%j is invalid',
    (text) => {
      expect(parseNetwork(text)).toBeNull();
    },
  );
});

describe('the hops of a Forwarded header', () => {
  test.each([
    ['for=192.0.2.43', ['192.0.2.43']],
    ['For="[2001:db8:cafe::17]:4711"', ['[2001:db8:cafe::17]:4711']],
    ['for=192.0.2.60;proto=http;by=203.0.113.43', ['192.0.2.60']],
    ['proto=http;FOR=192.0.2.60', ['192.0.2.60']],
    ['for=192.0.2.43, for=198.51.100.17', ['192.0.2.43', '198.51.100.17']],
    ['for=_hidden, for=unknown', ['_hidden', 'unknown']],
    ['for="a,for=6.6.6.6", for=192.0.2.1', ['a,for=6.6.6.6', '192.0.2.1']],
    ['xfor=6.6.6.6', []],
    ['by=203.0.113.43', []],
    ['', []],
    // Left open by a hostile client, with another hop appended by the proxy.
    ['for=", for=192.0.2.1', ['"', '192.0.2.1']],
    ['for=", for="[2001:db8::1]:80"', ['"', '[2001:db8::1]:80']],
    ['for="\\", for="[2001:db8::1]";proto=https', ['\\', '[2001:db8::1]']],
    // The Host of a hostile client, quoted by the proxy.
    ['for=192.0.2.1;host="a;for=6.6.6.6;b"', ['192.0.2.1']],
    ['for=192.0.2.1;host="a\\",for=6.6.6.6;\\\\"', ['192.0.2.1']],
  ])('%j', (header, expected) => {
    expect(forwardedHops(header)).toEqual(expected);
  });

  test.each([
    ['for=192.0.2.1', '192.0.2.1'],
    ['for="[2001:db8::1]:80"', '[2001:db8::1]:80'],
    ['proto=https;for="[2001:db8::1]";host="a,b"', '[2001:db8::1]'],
  ])('end with that of the proxy, for any earlier ones of the client: %s', (appended, expected) => {
    fc.assert(
      fc.property(fc.string({ unit: fc.constantFrom(...'for=;, 1.2"\\x') }), (sent) => {
        expect(forwardedHops(`${sent}, ${appended}`).at(-1)).toBe(expected);
      }),
    );
  });
});

test.each([
  ['http://127.0.0.1:8080/in/x', 'A sender on another machine cannot reach 127.0.0.1'],
  ['https://localhost/in/x', 'A sender on another machine cannot reach localhost'],
  ['http://[::1]:8080/in/x', 'A sender on another machine cannot reach ::1'],
  ['https://192.168.1.7/in/x', 'A sender on the internet cannot reach 192.168.1.7'],
  ['https://[fd00::7]/in/x', 'A sender on the internet cannot reach fd00::7'],
  ['https://build-server/in/x', 'A sender on the internet cannot reach build-server'],
  ['http://203.0.113.9/in/x', 'Over http, anyone on the way can read the events, and some senders refuse it'],
  ['http://hooks.example.org/in/x', 'Over http, anyone on the way can read the events, and some senders refuse it'],
  ['https://hooks.example.org/in/x', null],
  ['https://[2001:db8::7]/in/x', null],
])('a sender on the internet and %s', (url, trouble) => {
  expect(whyUnreachable(url)).toBe(trouble);
});
