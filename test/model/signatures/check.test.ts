import crypto, { createHmac, randomBytes } from 'node:crypto';
import { syncBuiltinESMExports } from 'node:module';
import fc from 'fast-check';
import { describe, expect, onTestFinished, test, vi } from 'vitest';
import { findKey, hmac } from '../../../server/model/signatures/check.ts';
import type { Algorithm } from '../../../server/model/signatures/definition.ts';
import { sha256 } from '../../../server/model/signatures/keys.ts';
import { parseDigest } from '../../../server/model/signatures/signature.ts';

const KEY_BYTES = [1, 24, 63, 64, 65, 127, 128, 129];
/** One-shot up to 4,096 bytes, of which each UTF-16 unit around the body counts three. */
const BODY_BYTES = [0, 1, 1_024, 4_096 - 3 * 14, 4_096 - 3 * 14 + 1, 4_096, 4_097, 100_000];
const texts = [
  { prefix: '', suffix: '' },
  { prefix: 'v0:1234567890:', suffix: '' },
  { prefix: 'é€:', suffix: '.\u{1F600}nd' },
];

describe.each(['sha1', 'sha256', 'sha512'] as const)('%s', (name) => {
  test.each(KEY_BYTES)('with a key of %i bytes', (keyBytes) => {
    const key = randomBytes(keyBytes);
    for (const bodyBytes of BODY_BYTES)
      for (const { prefix, suffix } of texts) {
        const body = new Uint8Array(new SharedArrayBuffer(bodyBytes));
        body.set(randomBytes(bodyBytes));
        const expected = createHmac(name, key).update(prefix).update(body).update(suffix).digest('hex');
        expect(hmac(name, key, { prefix, body, suffix }).toString('hex')).toBe(expected);
      }
  });
});

describe('a presented value is compared by one call in constant time, wherever it differs', () => {
  const key = Buffer.from('k'.repeat(32));
  const url = 'https://weir.example/in/1';
  const form = Buffer.from('a=1');
  const signed = { prefix: url, body: form, suffix: '' };
  const nothing = new Uint8Array();
  const mailgun = { timestamp: '1700000000', token: 't'.repeat(50) };

  /** The valid value, and where a request has it: beside the body, or in it. */
  const values: [Algorithm, Buffer, ((presented: Buffer) => object)?][] = [
    ['hmac-sha256', hmac('sha256', key, signed)],
    ['hmac-sha1', hmac('sha1', key, signed)],
    ['hmac-sha512', hmac('sha512', key, signed)],
    ['token', key],
    ['basic', key],
    ['twilio', createHmac('sha1', key).update(`${url}a1`).digest()],
    [
      'mailgun',
      createHmac('sha256', key).update(`${mailgun.timestamp}${mailgun.token}`).digest(),
      (presented) => ({ signature: { ...mailgun, signature: presented.toString('hex') } }),
    ],
    // Compared by their hashes, which have one length.
    ['microsoft-graph', key, (presented) => ({ value: [{ clientState: presented.toString() }] })],
  ];

  test.each(values)('%s', (algorithm, valid, inBody) => {
    const compare = vi.spyOn(crypto, 'timingSafeEqual');
    syncBuiltinESMExports();
    onTestFinished(() => {
      compare.mockRestore();
      syncBuiltinESMExports();
    });
    const bytes = algorithm === 'microsoft-graph' ? sha256(key).length : valid.length;
    for (const [at, index] of [
      [null, 0],
      [0, -1],
      [valid.length - 1, -1],
    ] as const) {
      const presented = Buffer.from(valid);
      if (at !== null) presented[at]! ^= 1;
      const body = inBody === undefined ? form : Buffer.from(JSON.stringify(inBody(presented)));
      compare.mockClear();
      const found = findKey(
        { algorithm, keys: [key] },
        { ...signed, body },
        inBody === undefined ? presented : nothing,
      );
      expect(found).toBe(index);
      expect(compare.mock.calls.map(([one]) => one.byteLength)).toEqual([bytes]);
    }
  });
});

const A = 'a'.repeat(64);
const digestOf = (byte: number) => new Uint8Array(32).fill(byte);

describe('a digest', () => {
  test.each([`sha256=${A}`, `sha256=${A.toUpperCase()}`, `sha256=${'aA'.repeat(32)}`])('%s is accepted', (value) => {
    expect(parseDigest(value)).toEqual(digestOf(0xaa));
  });

  test.each([
    ['empty', ''],
    ['without its prefix', A],
    ['with the prefix alone', 'sha256='],
    ['with the prefix in capitals', `SHA256=${A}`],
    ['with another prefix', `sha512=${A}`],
    ['of 63 digits', `sha256=${A.slice(1)}`],
    ['of 65 digits', `sha256=${A}a`],
    ['with a last character that is not a digit', `sha256=${A.slice(1)}g`],
    ['with a first character that is not a digit', `sha256=g${A.slice(1)}`],
    ['with a blank in front', ` sha256=${A}`],
    ['with a blank behind', `sha256=${A} `],
    ['with a blank inside', `sha256= ${A.slice(1)}`],
    ['with a full-width digit', `sha256=${A.slice(1)}\uff11`],
    ['with a NUL behind', `sha256=${A}\0`],
    ['in base64', `sha256=${Buffer.alloc(32, 0xaa).toString('base64')}`],
    ['twice in a list', `sha256=${A},sha256=${A}`],
  ])('%s is refused', (_how, value) => {
    expect(parseDigest(value)).toBeNull();
  });

  test('is parsed only from 64 hex digits after the prefix, for any input', () => {
    fc.assert(
      fc.property(fc.string({ minLength: 60, maxLength: 70, unit: fc.constantFrom(...'0aAfFg =\0é') }), (text) => {
        expect(parseDigest(`sha256=${text}`) !== null).toBe(/^[0-9a-fA-F]{64}$/.test(text));
      }),
    );
  });
});
