import { createHash, generateKeyPairSync } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { clockDistance } from '../../../server/model/signatures/clock.ts';
import type { SchemeDefinition } from '../../../server/model/signatures/definition.ts';
import { compilePath } from '../../../server/model/signatures/json-scan.ts';
import { isAsymmetric, keyOf } from '../../../server/model/signatures/keys.ts';
import { presetNamed, presets, schemeOf } from '../../../server/model/signatures/presets.ts';
import {
  HEADER_ITEMS_MAX,
  KEY_PAIR_SIGNATURES_MAX,
  SIGNATURES_MAX,
  takesBatches,
} from '../../../server/model/signatures/scheme.ts';
import { signRequest } from '../../../server/model/signatures/sign.ts';
import { URL_OF_HOOK, verifies } from '../../helpers/signed.ts';

const keys = { ed25519: generateKeyPairSync('ed25519'), ec: generateKeyPairSync('ec', { namedCurve: 'P-256' }) };

const otherPublicKeys = {
  ed25519: generateKeyPairSync('ed25519').publicKey.export({ format: 'der', type: 'spki' }),
  ec: generateKeyPairSync('ec', { namedCurve: 'P-256' }).publicKey.export({ format: 'der', type: 'spki' }),
};

/** Key to sign with and key to verify with. */
function keyPair(definition: SchemeDefinition): [Buffer, Uint8Array] {
  if (isAsymmetric(definition.algorithm)) {
    const { privateKey, publicKey } = definition.algorithm === 'ed25519' ? keys.ed25519 : keys.ec;
    const pem = privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
    return [Buffer.from(pem), publicKey.export({ format: 'der', type: 'spki' })];
  }
  const secret = definition.algorithm === 'basic' ? 'user:password' : '0123456789abcdef0123456789abcdef';
  return [Buffer.from(secret), keyOf(definition, Buffer.from(secret))];
}

const timeMs = 1_760_000_000_000;
const request = { method: 'POST', url: URL_OF_HOOK, id: 'evt-17', timeMs, body: Buffer.from('{"a":"b c","n":1}') };
const ofSenders = presets.map(({ name }): [string, SchemeDefinition] => {
  const unset = { schemeDefinition: null, signatureHeader: 'x-own', publicKey: null, toleranceSeconds: null };
  const settings = { signatureScheme: name, ...unset };
  const { definition } = schemeOf(settings);
  return [name, name === 'sha256' ? { ...definition, header: 'x-own' } : definition];
});

describe('a signed request of the scheme', () => {
  test.each(ofSenders)('%s verifies, and not with another key', (_, definition) => {
    const [signing, key] = keyPair(definition);
    const signed = signRequest(definition, signing, request);
    expect(verifies(definition, [key], signed)).toBe(true);
    const otherKey = isAsymmetric(definition.algorithm)
      ? otherPublicKeys[definition.algorithm === 'ed25519' ? 'ed25519' : 'ec']
      : createHash('sha256').digest();
    expect(verifies(definition, [otherKey], signed)).toBe(false);
    expect(verifies(definition, [otherKey, key], signed)).toBe(true);
  });

  const signing = ofSenders.filter(
    ([, { algorithm }]) => !['token', 'basic', 'mailgun', 'microsoft-graph'].includes(algorithm),
  );
  test.each(signing)('%s does not verify with one byte of the body changed', (_, definition) => {
    const [secret, key] = keyPair(definition);
    const signed = signRequest(definition, secret, request);
    fc.assert(
      fc.property(fc.nat(signed.body.length - 1), fc.integer({ min: 1, max: 255 }), (at, by) => {
        const body = Buffer.from(signed.body);
        body[at] = body[at]! ^ by;
        expect(verifies(definition, [key], { ...signed, body })).toBe(false);
      }),
      { numRuns: 60 },
    );
  });

  test.each(signing)(
    '%s does not verify with one character of its signature, time, id or URL changed',
    (_, definition) => {
      const [secret, key] = keyPair(definition);
      const signed = signRequest(definition, secret, request);
      const content = definition.content ?? '{body}';
      const names = [definition.header!, ...(content.includes('{id}') ? [definition.id!.slice('header:'.length)] : [])];
      if (content.includes('{timestamp}') && definition.timestamp!.from.startsWith('header:'))
        names.push(definition.timestamp!.from.slice('header:'.length));
      const padding = definition.encoding === 'base64' ? /=$/ : /$^/;
      fc.assert(
        fc.property(
          fc.constantFrom(...names),
          fc.nat(1_000),
          fc.integer({ min: 0x21, max: 0x7e }),
          (name, place, code) => {
            const value = signed.headers[name]!;
            const at = place % value.length;
            const changed = value.slice(0, at) + String.fromCharCode(code) + value.slice(at + 1);
            // The case of hex digits and the padding of base64 are irrelevant.
            fc.pre(changed.toLowerCase() !== value.toLowerCase() && !padding.test(value.slice(0, at + 1)));
            expect(verifies(definition, [key], { ...signed, headers: { ...signed.headers, [name]: changed } })).toBe(
              false,
            );
          },
        ),
        { numRuns: 200 },
      );
      if (!content.includes('{url}')) return;
      for (const url of [
        `${URL_OF_HOOK}?`,
        `${URL_OF_HOOK}/`,
        URL_OF_HOOK.replace('https', 'http'),
        URL_OF_HOOK.slice(1),
      ])
        expect(verifies(definition, [key], { ...signed, url })).toBe(false);
    },
  );
});

describe('a signature header', () => {
  const definition = presetNamed('stripe')!.definition;
  const signed = signRequest(definition, Buffer.from('s'), request);
  const [time, good] = signed.headers['stripe-signature']!.split(',') as [string, string];
  const bad = `v1=${'0'.repeat(64)}`;
  const read = (value: string) =>
    verifies(definition, [Buffer.from('s')], { ...signed, headers: { 'stripe-signature': value } });

  test.each([
    ['as sent', `${time},${good}`, true],
    ['with blanks after the commas', `${time}, ${good}`, true],
    ['in another order', `${good},${time}`, true],
    ['with a second signature before', `${time},${bad},${good}`, true],
    ['with items of other keys', `${time},v0=ab,${good},v2=x`, true],
    ['with as many signatures as allowed', `${time},${`${bad},`.repeat(SIGNATURES_MAX - 1)}${good}`, true],
    ['with one signature too many', `${time},${`${bad},`.repeat(SIGNATURES_MAX)}${good}`, false],
    ['with as many items as allowed', `${time},${'v0=ab,'.repeat(HEADER_ITEMS_MAX - 2)}${good}`, true],
    ['with one item too many', `${time},${'v0=ab,'.repeat(HEADER_ITEMS_MAX - 1)}${good}`, false],
    ['with two times', `${time},${time},${good}`, false],
    ['without its time', good, false],
    ['under another key', `${time},${good.replace('v1', 'v0')}`, false],
    ['empty', '', false],
  ])('%s', (_, value, verified) => {
    expect(read(value)).toBe(verified);
  });
});

test.each([
  ['as many signatures of a key pair as allowed', KEY_PAIR_SIGNATURES_MAX, true],
  ['one more', KEY_PAIR_SIGNATURES_MAX + 1, false],
])('a header verifies with %s', (_, signatures, verified) => {
  const definition = presetNamed('standard-webhooks')!.publicKeyDefinition!;
  const [secret, key] = keyPair(definition);
  const signed = signRequest(definition, secret, request);
  const value = [...Array(signatures - 1).fill(`v1a,${'A'.repeat(86)}==`), signed.headers['webhook-signature']].join(
    ' ',
  );
  const headers = { ...signed.headers, 'webhook-signature': value };
  expect(verifies(definition, [key], { ...signed, headers })).toBe(verified);
});

test.each([
  ['without id and time', { algorithm: 'hmac-sha256', header: 'x-own' }, true],
  ['with a token', { algorithm: 'token', header: 'x-own' }, true],
  ['with an id', { algorithm: 'hmac-sha256', header: 'x-own', id: 'header:x-id' }, false],
  ['with a time', { algorithm: 'hmac-sha256', header: 'x-own', timestamp: { from: 'json:/t' } }, false],
  ['with an id, for signed lines', { algorithm: 'hmac-sha256', header: 'x-own', id: 'header:x-id', batch: true }, true],
  ['without id and time, for single events', { algorithm: 'hmac-sha256', header: 'x-own', batch: false }, false],
  ['twilio', presetNamed('twilio')!.definition, false],
  ['mailgun', presetNamed('mailgun')!.definition, false],
  ['microsoft-graph', presetNamed('microsoft-graph')!.definition, false],
] satisfies [string, SchemeDefinition, boolean][])('batches of a scheme %s', (_, definition, taken) => {
  expect(takesBatches(definition)).toBe(taken);
});

describe('the distance to the clock', () => {
  const clock = { toleranceMs: 1, unit: 's' as const, path: null };
  const now = 1_760_000_000_000;
  test.each([
    ['seconds', clock, '1760000010', 10_000],
    ['milliseconds', { ...clock, unit: 'ms' as const }, '1759999990000', -10_000],
    ['ISO 8601', clock, '2025-10-09T08:53:21Z', 1_000],
    ['no time', clock, 'soon', null],
    ['a time in the body', { ...clock, path: compilePath(['a', 't']) }, null, 5_000],
    ['no time in the body', { ...clock, path: compilePath(['t']) }, null, null],
  ])('of %s', (_, given, time, distance) => {
    expect(clockDistance(given, time, Buffer.from('{"a":{"t":1760000005}}'), now)).toBe(distance);
  });
});

test('a time that belongs to a nested member of the body is set there, and its neighbours stay', () => {
  const definition: SchemeDefinition = {
    algorithm: 'hmac-sha256',
    header: 'x-own',
    timestamp: { from: 'json:/meta/sent~1at', tolerance: 300 },
  };
  const signed = signRequest(definition, Buffer.from('s'), { ...request, body: Buffer.from('{"meta":{"n":1},"a":2}') });
  expect(JSON.parse(signed.body.toString())).toEqual({ meta: { n: 1, 'sent/at': timeMs / 1000 }, a: 2 });
  expect(verifies(definition, [Buffer.from('s')], signed)).toBe(true);
});

test('an id cannot be split at another place', () => {
  const { definition } = presetNamed('standard-webhooks')!;
  const [secret, key] = keyPair(definition);
  const signed = signRequest(definition, secret, { ...request, id: 'a', body: Buffer.from('5.5') });
  const headers = { ...signed.headers, 'webhook-id': 'a.1760000000', 'webhook-timestamp': '5' };
  expect(verifies(definition, [key], { headers, body: Buffer.from('5') })).toBe(false);
});
