import { describe, expect, test } from 'vitest';
import { shapeOf } from '../../../../server/model/signatures/diagnosis/fields.ts';
import { keptRequest, restoredHeaders } from '../../../../server/model/signatures/diagnosis/kept-request.ts';
import type { RefusedRequest } from '../../../../server/model/signatures/diagnosis/refused.ts';

const SECRET = 'kept between the two of us 7f3a';
const HEX = 'a1'.repeat(32);
const unset = { schemeDefinition: null, signatureHeader: null, publicKey: null, toleranceSeconds: null };
const settings = { signatureScheme: 'sha256', ...unset };

const keep = (
  headers: string[],
  {
    body = 'body',
    secret = SECRET,
    ...rest
  }: Partial<Omit<RefusedRequest, 'body'>> & { body?: string; secret?: string } = {},
) =>
  keptRequest({
    headers,
    body: Buffer.from(body),
    secrets: [{ bytes: Buffer.from(secret), expired: false }],
    others: [],
    settings,
    url: '',
    receivedAtMs: 0,
    ...rest,
  });

test.each([
  ['an ordinary one', ['user-agent', 'curl'], 'user-agent: curl'],
  ['credentials', ['authorization', 'Bearer x', 'cookie', 'a=b', 'x-api-key', 'y'], ''],
  ['a signature', ['x-hub-signature-256', `sha256=${HEX}`], ''],
  ['a signature in a header of any name', ['x-check', `sha256=${HEX}`], ''],
  ['a damaged signature of a known scheme', ['stripe-signature', 't=1,v1=a1b2'], ''],
  ['one with the secret in it', ['x-note', `see ${SECRET}!`], ''],
  ['one of two', ['a', '1', 'x-note', SECRET, 'b', '2'], 'a: 1\nb: 2'],
])('of the headers: %s', (_, headers, lines) => {
  expect(keep(headers).headers).toBe(lines);
});

describe('of a signature header', () => {
  test.each([
    ['a digest', 'x-hub-signature-256', `sha256=${HEX}`, true],
    ['a digest of another form', 'x-hub-signature-256', HEX, true],
    ['words', 'x-hub-signature-256', 'open sesame', false],
    ['the secret', 'x-hub-signature-256', SECRET, false],
    ['a value of a known scheme', 'stripe-signature', `t=1,v1=${HEX}`, true],
    ['a damaged value of a known scheme', 'x-twilio-signature', 'a1b2', true],
    ['a token of GitLab', 'x-gitlab-token', 'some other secret', false],
  ])('%s', (_, name, value, isKept) => {
    const { signatures } = keep([name, value]);
    expect(signatures).toEqual([{ name, shape: shapeOf(value), value: isKept ? value : null }]);
  });

  test('a secret that looks like a digest is not stored', () => {
    expect(keep(['x-hub-signature-256', `sha256=${HEX}`], { secret: HEX }).signatures[0]!.value).toBeNull();
  });
});

test.each([
  ['is kept', 'something else', SECRET, true],
  ['with the secret in it is not', `{"secret":"${SECRET}"}`, SECRET, false],
  ['with a secret that is not ASCII in it is not', 'über den Größen', 'über den', false],
  ['that has a short secret for a word is kept', 'abc', 'a', true],
  ['that is a short secret is not', ' abc\n', 'abc', false],
])('a body: %s', (_, body, secret, keepsBody) => {
  expect(keep([], { body, secret }).keepsBody).toBe(keepsBody);
});

test('the stored parts are sufficient for a re-check', () => {
  const headers = ['content-type', 'text/plain', 'svix-id', 'm: 1', 'svix-signature', `v1,${'A'.repeat(43)}=`];
  expect(restoredHeaders(keep(headers))).toEqual(headers);
});

test.each([
  ['', 'empty'],
  [`sha256=${HEX}`, 'sha256= and 64 hex digits'],
  [HEX, '64 hex digits'],
  ['v1,QUJDRA==', 'v1, and 8 base64 characters'],
  ['t=1,v1=ab', '9 characters'],
  ['sha1=0', 'sha1= and 1 hex digits'],
])('the shape of %s is %s', (value, shape) => {
  expect(shapeOf(value)).toBe(shape);
});
