/** Refused requests of webhooks with a scheme, and requests of a scheme at a webhook of another one. */
import { createHmac, generateKeyPairSync } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import type { SchemeDefinition } from '../../../../server/model/signatures/definition.ts';
import { diagnose, verifies } from '../../../../server/model/signatures/diagnosis/diagnose.ts';
import { keptRequest, restoredHeaders } from '../../../../server/model/signatures/diagnosis/kept-request.ts';
import type { RefusedRequest } from '../../../../server/model/signatures/diagnosis/refused.ts';
import { definitionOf, presetNamed } from '../../../../server/model/signatures/presets.ts';
import { signRequest } from '../../../../server/model/signatures/sign.ts';

const NOW = 1_760_000_000_000;
const SECRET = 'whsec_MfKQ9r8GKYqrTwjUPD8ILPZIo2LaLaSw';
const URL_OF_HOOK = 'https://weir.example.org/in/1';
const BODY = '{"a": 1, "livemode": true}';

interface Sent {
  scheme: string;
  secret?: string;
  body?: string;
  url?: string;
  secondsAgo?: number;
  definition?: Partial<SchemeDefinition>;
}

function headersOf({
  scheme,
  secret = SECRET,
  body = BODY,
  url = URL_OF_HOOK,
  secondsAgo = 0,
  definition,
}: Sent): string[] {
  const given = { signatureScheme: scheme, schemeDefinition: null, signatureHeader: 'x-own', publicKey: null };
  const signing = { ...definitionOf(given)!, ...definition };
  const timeMs = NOW - secondsAgo * 1000;
  const request = { body: Buffer.from(body), method: 'POST', url, id: 'msg-1', timeMs };
  return Object.entries(signRequest(signing, Buffer.from(secret), request).headers).flat();
}

/** The request as a webhook of the scheme refused it. */
function refused(
  scheme: string,
  headers: string[],
  more: Partial<RefusedRequest> = {},
  url = URL_OF_HOOK,
): RefusedRequest {
  const unset = { schemeDefinition: null, signatureHeader: null, publicKey: null, toleranceSeconds: null };
  const settings = { signatureScheme: scheme, ...unset };
  return {
    headers,
    body: Buffer.from(BODY),
    secrets: [{ bytes: Buffer.from(SECRET), expired: false }],
    others: [],
    settings,
    url,
    receivedAtMs: NOW,
    ...more,
  };
}

function find(request: RefusedRequest) {
  const { reason, header, otherwiseValid } = diagnose(request);
  return [reason, header, otherwiseValid];
}

const [stripe, hub, shopify] = ['stripe-signature', 'x-hub-signature-256', 'x-shopify-hmac-sha256'];
const [standard, own] = ['standard-webhooks', 'webhook-signature'];
const COMPACT = '{"a":1,"livemode":true}';
const TEST_MODE = Buffer.from('{"livemode": false}');
const BY_HTTP = URL_OF_HOOK.replace('https', 'http');

/** Secrets that are kept beside the current one. */
const before = [
  { bytes: Buffer.from(SECRET), expired: false },
  { bytes: Buffer.from('before'), expired: true },
];
const others = [{ id: 'b', secrets: [Buffer.from('other')] }];

test.each<[string, string, Partial<Sent> | string[], unknown[], Partial<RefusedRequest>?]>([
  ['that verifies', 'stripe', {}, ['verifies_now', null, true]],
  ['at the end of its tolerance', 'stripe', { secondsAgo: 300 }, ['verifies_now', null, true]],
  ['too old', 'stripe', { secondsAgo: 301 }, ['clock_apart', stripe, true]],
  ['from the future', 'slack', { secondsAgo: -400 }, ['clock_apart', 'x-slack-request-timestamp', true]],
  ['without a signature', 'stripe', ['accept', '*/*'], ['header_missing', null, null]],
  ['with nonsense', 'stripe', [stripe, 'nonsense'], ['malformed', stripe, null]],
  ['with two headers', 'stripe', [stripe, 'a', stripe, 'b'], ['header_repeated', stripe, false]],
  ['in base64, not hex', 'github', { definition: { encoding: 'base64' } }, ['signature_encoding', hub, true]],
  ['in hex, not base64', 'shopify', { definition: { encoding: 'hex' } }, ['signature_encoding', shopify, true]],
  ['with a secret not decoded', standard, { definition: { secret: 'text' } }, ['secret_undecoded', own, true]],
  ['with a line end after the secret', 'stripe', { secret: `${SECRET}\n` }, ['secret_space', stripe, true]],
  ['with a body serialized again', 'stripe', { body: COMPACT }, ['body_reencoded', stripe, true]],
  ['with another URL', 'square', { url: `${URL_OF_HOOK}/` }, ['url_differs', null, true]],
  ['with the URL of another protocol, which is accepted', 'square', { url: BY_HTTP }, ['verifies_now', null, true]],
  ['with another secret', 'stripe', { secret: 'whsec_AAAA' }, ['digest_differs', stripe, false]],
  ['of test mode', 'stripe', { secret: 'whsec_AAAA' }, ['secret_mode', stripe, false], { body: TEST_MODE }],
  ['with the previous secret', 'stripe', { secret: 'before' }, ['previous_secret', stripe, true], { secrets: before }],
  ['with the secret of another webhook', 'stripe', { secret: 'other' }, ['other_webhook', stripe, true], { others }],
  ['with the secret in a header', 'stripe', ['x-a', SECRET], ['secret_sent', 'x-a', false]],
  ['with a wrong token', 'gitlab-token', ['x-gitlab-token', 'another'], ['digest_differs', 'x-gitlab-token', false]],
])('a request of the scheme: %s', (_, scheme, sent, expected, more) => {
  const request = refused(scheme, Array.isArray(sent) ? sent : headersOf({ scheme, ...sent }), more);
  expect(find(request)).toEqual(expected);
  expect(verifies(request)).toBe(expected[0] === 'verifies_now');
});

describe('a body over the bounds', () => {
  const form = Buffer.from('a=&'.repeat(1_000));
  const headers = headersOf({ scheme: 'twilio', body: 'a=1' });
  test.each([
    ['that is kept', { body: form }],
    ['that is too large to be kept', { body: null, exceedsBounds: true }],
  ])('%s is named', (_, more) => {
    const request = refused('twilio', headers, more);
    expect(find(request)).toEqual(['body_too_complex', null, null]);
    expect(verifies(request)).toBe(false);
  });
});

describe('the two kinds of keys of Standard Webhooks', () => {
  const { publicKey, privateKey } = generateKeyPairSync('ed25519');
  const whpk = `whpk_${publicKey.export({ format: 'der', type: 'spki' }).subarray(-32).toString('base64')}`;
  const keyed = presetNamed('standard-webhooks')!.publicKeyDefinition!;
  const withPem = (scheme: string) =>
    headersOf({
      scheme,
      secret: privateKey.export({ format: 'pem', type: 'pkcs8' }) as string,
      definition: keyed,
    });
  const withSecret = headersOf({ scheme: 'standard-webhooks' });
  const at = (headers: string[], publicKeyOfHook: string | null) => {
    const request = refused('standard-webhooks', headers);
    return { ...request, settings: { ...request.settings, publicKey: publicKeyOfHook } };
  };
  test.each([
    ['the public key of the webhook', withPem('standard-webhooks'), whpk, ['verifies_now', null, true]],
    ['the secret of the webhook', withSecret, null, ['verifies_now', null, true]],
    ['a secret where it has a public key', withSecret, whpk, ['key_kind', 'webhook-signature', null]],
    [
      'a private key where it has a secret',
      withPem('standard-webhooks'),
      null,
      ['key_kind', 'webhook-signature', null],
    ],
  ])('a request signed for %s', (_, headers, publicKeyOfHook, expected) => {
    expect(find(at(headers, publicKeyOfHook))).toEqual(expected);
  });
});

test.each([
  ['sha256', 'stripe', 'scheme_stripe'],
  ['sha256', 'linear', 'scheme_other'],
  ['sha256', 'zendesk', 'scheme_other'],
  ['stripe', 'linear', 'scheme_other'],
  ['slack', 'shopify', 'scheme_other'],
])('a request of another scheme at a webhook of %s, signed by %s, is recognized', (own, sent, reason) => {
  const { definition } = presetNamed(sent)!;
  const body = sent === 'linear' ? `{"webhookTimestamp":${NOW}}` : BODY;
  const request = refused(own, headersOf({ scheme: sent, body }), { body: Buffer.from(body) });
  expect(find(request)).toEqual([reason, definition.header, true]);
});

describe('a request with the SHA-1 signature of GitHub alone', () => {
  const sha1 = (key: string) => `sha1=${createHmac('sha1', key).update(BODY).digest('hex')}`;
  const github = 'scheme_github_sha1';
  test.each<[string, string, string[], unknown[]]>([
    ['of a webhook for GitHub', 'github', ['x-hub-signature', sha1(SECRET)], [github, 'x-hub-signature', true]],
    ['with another secret', 'github', ['x-hub-signature', sha1('b')], [github, 'x-hub-signature', false]],
    [
      'of a webhook for another sender, with the header of GitHub',
      'stripe',
      ['x-github-event', 'push', 'x-hub-signature', sha1(SECRET)],
      [github, 'x-hub-signature', true],
    ],
    [
      'of a webhook for another sender, without it',
      'stripe',
      ['x-hub-signature', sha1(SECRET)],
      ['scheme_other', 'x-hub-signature', true],
    ],
    ['that is malformed', 'github', ['x-hub-signature', 'sha1=12'], ['header_missing', null, null]],
  ])('%s', (_, scheme, headers, expected) => {
    expect(find(refused(scheme, headers))).toEqual(expected);
  });

  test('beside its SHA-256 signature is not the fault', () => {
    const both = ['x-hub-signature', sha1('b'), ...headersOf({ scheme: 'github', secret: 'b' })];
    expect(find(refused('github', both))).toEqual(['digest_differs', 'x-hub-signature-256', false]);
  });
});

describe('what is kept of a refused request', () => {
  test.each(['stripe', 'standard-webhooks', 'slack', 'github', 'zendesk'])(
    'of %s is enough to check it again',
    (scheme) => {
      const request = refused(scheme, ['accept', '*/*', ...headersOf({ scheme })]);
      const kept = keptRequest(request);
      expect(kept.headers).not.toContain(`${presetNamed(scheme)!.definition.header}:`);
      expect(verifies({ ...request, headers: restoredHeaders(kept) })).toBe(true);
    },
  );

  test.each([
    ['gitlab-token', ['x-gitlab-token', 'a wrong token']],
    ['basic', ['authorization', `Basic ${Buffer.from('user:wrong').toString('base64')}`]],
  ])('of %s is not its token', (scheme, headers) => {
    const kept = keptRequest(refused(scheme, headers));
    expect(JSON.stringify(kept)).not.toContain(headers[1]);
    expect(kept.signatures).toMatchObject([{ name: headers[0], value: null }]);
  });
});
