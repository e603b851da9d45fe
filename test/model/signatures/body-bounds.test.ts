/**
 * The work that a stranger's body can cause: the worst bodies for every scheme of the table. The limit is CPU time of the process, ten times
 * what a check may take beside the hash, because a busy machine counts more, or the CPU time of a hundred hashes on a slow one; before the bounds these bodies took 150 to 4,000 ms.
 */
import { createHash, generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import {
  FORM_BYTES_MAX,
  FORM_FIELDS_MAX,
  JSON_BYTES_MAX,
  MAILGUN_BYTES_MAX,
  SHORT_FORM_BYTES_MAX,
  SHORT_FORM_FIELDS_MAX,
} from '../../../server/model/signatures/body-bounds.ts';
import { findKey } from '../../../server/model/signatures/check.ts';
import { clockDistance } from '../../../server/model/signatures/clock.ts';
import { readPointer } from '../../../server/model/signatures/code-schemes.ts';
import { eventTypeReader } from '../../../server/model/signatures/event-type.ts';
import { compilePath } from '../../../server/model/signatures/json-scan.ts';
import { isAsymmetric, keyOf } from '../../../server/model/signatures/keys.ts';
import { CUSTOM, presets, schemeOf } from '../../../server/model/signatures/presets.ts';
import { signRequest } from '../../../server/model/signatures/sign.ts';
import { pointerOf } from '../../../server/model/signatures/sources.ts';
import { URL_OF_HOOK } from '../../helpers/signed.ts';

const BYTES = 1_048_576;
const CPU_MS_MAX = 200;
const HASHES_MAX = 100;
const TRIES = 5;

/** The unit repeated between the two ends, up to BYTES. */
function filled(begin: string, unit: string, end: string): Buffer {
  return Buffer.from(begin + unit.repeat(Math.floor((BYTES - begin.length - end.length) / unit.length)) + end);
}

const names = Array.from({ length: 262_144 }, (_, i) => (i + 46_656).toString(36)).join('=&');
const longNames = Array.from({ length: FORM_FIELDS_MAX }, (_, i) => `${'%c3%a4'.repeat(20)}${i}`).join('=&');
const bodies: [string, Buffer][] = [
  ['a form of distinct names', Buffer.from(names.slice(0, BYTES))],
  ['a form within the bounds, of long names', Buffer.from(longNames.slice(0, FORM_BYTES_MAX))],
  ['a form of one long value', Buffer.from(`a=${'+'.repeat(FORM_BYTES_MAX - 2)}`)],
  ['a short form of escapes', Buffer.from(`a=${'%41'.repeat(SHORT_FORM_BYTES_MAX / 3 - 2)}`)],
  ['open brackets', filled('', '[', '')],
  ['closed brackets', Buffer.from('['.repeat(BYTES / 2) + ']'.repeat(BYTES / 2))],
  ['empty names', filled('{', '"":1,', '"z":1}')],
  ['escaped names', filled('{', '"\\n":1,', '"z":1}')],
  ['items', filled('[', '1,', '1]')],
  ['strings', filled('{"x":[', '"",', '""],"signature":{"timestamp":1}}')],
  ['names in the signature', filled('{"signature":{', '"":1,', '"token":1}}')],
  ['notifications', filled('{"value":[', '{},', '{}]}')],
  ['escaped quotes', filled(`{"x":"${'y'.repeat(99)}`, '\\"', '","type":1}')],
  ['bytes that are not text', Buffer.alloc(BYTES, 0xff)],
];

const pair = { ed25519: generateKeyPairSync('ed25519'), ec: generateKeyPairSync('ec', { namedCurve: 'P-256' }) };
const unset = { schemeDefinition: null, signatureHeader: 'x-own', toleranceSeconds: 60 };
const worstPointer = `json:${'/é e'.repeat(8)}`;
const schemes = [
  ...presets.flatMap(({ name, publicKeyDefinition }) => [
    schemeOf({ ...unset, signatureScheme: name, publicKey: null }),
    ...(publicKeyDefinition === undefined ? [] : [schemeOf({ ...unset, signatureScheme: name, publicKey: '' })]),
  ]),
  ...['é e', '0/0', '999999'].map((path) =>
    schemeOf({
      ...unset,
      signatureScheme: CUSTOM,
      schemeDefinition: {
        algorithm: 'hmac-sha256',
        header: 'x-own',
        timestamp: { from: `json:/${path}`, tolerance: 60 },
        id: worstPointer,
      },
      publicKey: null,
    }),
  ),
].map((scheme) => [`${scheme.name} (${scheme.definition.algorithm})`, scheme] as const);

test.each(schemes)('a body costs a bounded time at %s', (_, scheme) => {
  const { algorithm, id } = scheme.definition;
  const signed = scheme.definition.header === undefined ? { ...scheme.definition, header: 'x-own' } : scheme.definition;
  const keyPair = pair[algorithm === 'ed25519' ? 'ed25519' : 'ec'];
  const pem = keyPair.privateKey.export({ format: 'pem', type: 'pkcs8' }) as string;
  const secret = Buffer.from(isAsymmetric(algorithm) ? pem : 'user:password');
  const request = { method: 'POST', url: URL_OF_HOOK, id: 'evt-17', timeMs: 0, body: Buffer.from('{}') };
  const { headers } = signRequest(signed, secret, request);
  const key = isAsymmetric(algorithm)
    ? keyPair.publicKey.export({ format: 'der', type: 'spki' })
    : keyOf(scheme.definition, Buffer.from('another:secret'));
  const presented = scheme.present({ headers: Object.entries(headers).flat(), method: 'POST', url: URL_OF_HOOK });
  expect(presented.kind === 'digests' || scheme.name === 'sha256').toBe(true);
  const { digests, prefix, suffix } =
    presented.kind === 'digests' ? presented : { digests: [], prefix: '', suffix: '' };
  const typeOf = eventTypeReader(null, scheme);
  const idNames = pointerOf(id);
  const idPath = idNames && compilePath(idNames);
  // An HMAC of the body alone takes the time of the hash.
  const hashesOnly = scheme.exceedsBounds === null && algorithm.startsWith('hmac-');
  for (const [name, body] of bodies) {
    const check = () => {
      if (!hashesOnly && !scheme.exceedsBounds?.(URL_OF_HOOK, body))
        findKey({ algorithm, keys: [key, key] }, { prefix, body, suffix }, Buffer.concat(digests));
      if (scheme.clock !== null) clockDistance(scheme.clock, null, body, 0);
      if (idPath !== null) readPointer(body, idPath);
      typeOf?.({ header: () => undefined }, body);
    };
    expectCheap(name, check);
  }
});

/** The least of TRIES measurements counts; one within the limit is enough. */
function expectCheap(name: string, run: () => void): void {
  const hash = () =>
    void createHash('sha256')
      .update(filled('', 'x', ''))
      .digest();
  let [leastMs, limitMs] = [Number.POSITIVE_INFINITY, 0];
  for (let i = 0; i < TRIES && leastMs >= limitMs; i++) {
    leastMs = Math.min(leastMs, cpuMs(run));
    limitMs = leastMs < CPU_MS_MAX ? CPU_MS_MAX : Math.max(CPU_MS_MAX, HASHES_MAX * cpuMs(hash));
  }
  expect(leastMs, name).toBeLessThan(limitMs);
}

function cpuMs(run: () => void): number {
  const before = process.cpuUsage();
  run();
  const { user, system } = process.cpuUsage(before);
  return (user + system) / 1000;
}

describe('a body is read', () => {
  const form = (fields: number) => Buffer.from(Array.from({ length: fields }, () => 'a=').join('&'));
  const bytes = (count: number) => Buffer.alloc(count, 0x61);
  const long = (fields: number, count: number) => Buffer.concat([form(fields), bytes(count)], count);
  const hashed = `${URL_OF_HOOK}?bodySHA256=${'0'.repeat(64)}`;
  test.each([
    ['twilio', 'as many fields as allowed', form(FORM_FIELDS_MAX), URL_OF_HOOK, false],
    ['twilio', 'one field more', form(FORM_FIELDS_MAX + 1), URL_OF_HOOK, true],
    ['twilio', 'as many bytes as allowed', long(SHORT_FORM_FIELDS_MAX + 1, FORM_BYTES_MAX), URL_OF_HOOK, false],
    ['twilio', 'one byte more', long(SHORT_FORM_FIELDS_MAX + 1, FORM_BYTES_MAX + 1), URL_OF_HOOK, true],
    ['mandrill', 'few fields, as long as allowed', long(SHORT_FORM_FIELDS_MAX, SHORT_FORM_BYTES_MAX), '', false],
    ['mandrill', 'few fields, one byte more', long(SHORT_FORM_FIELDS_MAX, SHORT_FORM_BYTES_MAX + 1), '', true],
    ['twilio', 'a body whose hash is in the URL', bytes(BYTES), hashed, false],
    ['mailgun', 'as many bytes as allowed', bytes(MAILGUN_BYTES_MAX), '', false],
    ['mailgun', 'one byte more', bytes(MAILGUN_BYTES_MAX + 1), '', true],
    ['microsoft-graph', 'as many bytes as allowed', bytes(JSON_BYTES_MAX), '', false],
    ['microsoft-graph', 'one byte more', bytes(JSON_BYTES_MAX + 1), '', true],
    ['linear', 'as many bytes as allowed', bytes(JSON_BYTES_MAX), '', false],
    ['linear', 'one byte more', bytes(JSON_BYTES_MAX + 1), '', true],
  ])('of %s with %s', (signatureScheme, _, body, url, exceeds) => {
    expect(schemeOf({ ...unset, signatureScheme, publicKey: null }).exceedsBounds!(url, body)).toBe(exceeds);
  });

  test('by a scheme that signs the body alone, whatever its size', () => {
    expect(schemeOf({ ...unset, signatureScheme: 'stripe', publicKey: null }).exceedsBounds).toBeNull();
  });
});
