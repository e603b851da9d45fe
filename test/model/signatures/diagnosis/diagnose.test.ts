import { createHash, createHmac } from 'node:crypto';
import fc from 'fast-check';
import { describe, expect, test } from 'vitest';
import { diagnose } from '../../../../server/model/signatures/diagnosis/diagnose.ts';
import { rejectionReasons } from '../../../../server/model/signatures/diagnosis/reasons.ts';
import type { RefusedRequest } from '../../../../server/model/signatures/diagnosis/refused.ts';

const SECRET = 'kept between the two of us 7f3a';
const BODY = '{"id":10,"title":"Größe <b>","b":[1.0,2.50],"a":{"z":1,"y":null}}';
const HEADER = 'x-hub-signature-256';

const mac = (key: string | Buffer, body: string | Buffer, algorithm = 'sha256') =>
  createHmac(algorithm, key).update(body).digest();
const hex = (key: string | Buffer, body: string | Buffer) => mac(key, body).toString('hex');
const sign = (key: string | Buffer, body: string | Buffer) => `sha256=${hex(key, body)}`;

const sha256 = { signatureScheme: 'sha256', schemeDefinition: null, publicKey: null, toleranceSeconds: null };

/** Reason, header, and whether it is the only fault. */
function find(
  headers: string[],
  given: Pick<Partial<RefusedRequest>, 'secrets'> & { body?: string | Buffer | null; signatureHeader?: string } = {},
) {
  const { reason, header, otherwiseValid } = diagnose(refused(headers, given));
  return [reason, header, otherwiseValid];
}

function refused(
  headers: string[],
  { body = BODY, signatureHeader, ...rest }: Parameters<typeof find>[1] = {},
): RefusedRequest {
  return {
    headers,
    secrets: [{ bytes: Buffer.from(SECRET), expired: false }],
    others: [],
    settings: { ...sha256, signatureHeader: signatureHeader ?? null },
    url: '',
    receivedAtMs: 0,
    ...rest,
    body: body === null ? null : Buffer.from(body as string),
  };
}

const GOOD = sign(SECRET, BODY);
const GOOD_HEX = hex(SECRET, BODY);
const OTHER = sign('another secret', BODY);

describe('the header', () => {
  test.each([
    ['no header at all', [], ['header_missing', null, null]],
    [
      'headers that are not signatures',
      ['user-agent', 'curl', 'x-request-id', 'f'.repeat(32)],
      ['header_missing', null, null],
    ],
    [
      'some digest in a header that is not a signature',
      ['x-request-hash', 'f'.repeat(64)],
      ['header_missing', null, null],
    ],
    ['a good one in a header of the sender’s own', ['x-signature', GOOD], ['header_other', 'x-signature', true]],
    ['a good one in a header of any name', ['x-check', GOOD], ['header_other', 'x-check', true]],
    ['a wrong one in a header of the sender’s own', ['x-signature', OTHER], ['header_other', 'x-signature', false]],
    ['good digits without the prefix there', ['x-check', GOOD_HEX], ['header_other', 'x-check', false]],
    ['sent twice, one good', [HEADER, GOOD, HEADER, OTHER], ['header_repeated', HEADER, true]],
    ['sent twice, none good', [HEADER, OTHER, HEADER, OTHER], ['header_repeated', HEADER, false]],
    ['the secret itself', ['x-webhook-signature', SECRET], ['secret_sent', 'x-webhook-signature', false]],
    [
      'the secret in a header of the sender’s own',
      ['x-secret', `Bearer ${SECRET}`],
      ['secret_sent', 'x-secret', false],
    ],
  ])('%s', (_, headers, finding) => {
    expect(find(headers)).toEqual(finding);
  });

  test.each([
    ['a good one in a default header', [HEADER, GOOD], ['header_other', HEADER, true]],
    ['a wrong one beside a good one elsewhere', ['x-own', OTHER, HEADER, GOOD], ['header_other', HEADER, true]],
    ['a wrong one beside a wrong one elsewhere', ['x-own', OTHER, HEADER, OTHER], ['digest_differs', 'x-own', false]],
    ['a malformed one beside a good one elsewhere', ['x-own', '?', HEADER, GOOD], ['header_other', HEADER, true]],
    ['no header', [], ['header_missing', null, null]],
  ])('%s, with a signature_header of the webhook', (_, headers, finding) => {
    expect(find(headers, { signatureHeader: 'x-own' })).toEqual(finding);
  });
});

describe('the form', () => {
  const base64 = Buffer.from(GOOD_HEX, 'hex').toString('base64');
  test.each([
    ['empty', '', 'malformed_empty', null],
    ['digits alone', GOOD_HEX, 'malformed_no_prefix', true],
    ['digits alone in capitals', GOOD_HEX.toUpperCase(), 'malformed_no_prefix', true],
    ['digits alone, wrong', OTHER.slice(7), 'malformed_no_prefix', false],
    ['prefix in capitals', `SHA256=${GOOD_HEX}`, 'malformed_prefix', true],
    ['prefix with a hyphen', `sha-256=${GOOD_HEX}`, 'malformed_prefix', true],
    ['prefix with a colon', `sha256:${GOOD_HEX}`, 'malformed_prefix', true],
    ['prefix and a blank', `sha256= ${GOOD_HEX}`, 'malformed_prefix', true],
    ['prefix of hmac', `hmac-sha256=${GOOD_HEX}`, 'malformed_prefix', true],
    ['in quotes', `"${GOOD}"`, 'malformed_around', true],
    ['a list', `${GOOD}, ${OTHER}`, 'malformed_around', true],
    ['with a parameter', `${GOOD};v=1`, 'malformed_around', true],
    ['base64', base64, 'malformed_base64', true],
    ['base64 after the prefix', `sha256=${base64}`, 'malformed_base64', true],
    ['base64url without padding', Buffer.from(GOOD_HEX, 'hex').toString('base64url'), 'malformed_base64', true],
    ['base64, wrong', mac('another', BODY).toString('base64'), 'malformed_base64', false],
    ['SHA-1', `sha1=${mac(SECRET, BODY, 'sha1').toString('hex')}`, 'malformed_algorithm', true],
    ['SHA-1 without a prefix', mac(SECRET, BODY, 'sha1').toString('hex'), 'malformed_algorithm', true],
    ['SHA-512', `sha512=${mac(SECRET, BODY, 'sha512').toString('hex')}`, 'malformed_algorithm', true],
    ['MD5 of another secret', `md5=${mac('another', BODY, 'md5').toString('hex')}`, 'malformed_algorithm', false],
    ['SHA-1 with too few digits', 'sha1=00', 'malformed_algorithm', null],
    ['a digit too few', GOOD.slice(0, -1), 'malformed_length', null],
    ['a digit too many', `${GOOD}0`, 'malformed_length', null],
    ['the prefix alone', 'sha256=', 'malformed_length', null],
    ['words', 'not a signature', 'malformed', null],
    ['a name of a variable', '$SIGNATURE', 'malformed', null],
  ])('%s', (_, value, reason, otherwiseValid) => {
    expect(find([HEADER, value])).toEqual([reason, HEADER, otherwiseValid]);
  });

  test('a body that was not stored leaves other faults unknown', () => {
    expect(find([HEADER, GOOD_HEX], { body: null })).toEqual(['malformed_no_prefix', HEADER, null]);
    expect(find([HEADER, GOOD, HEADER, GOOD], { body: null })).toEqual(['header_repeated', HEADER, null]);
    expect(find(['x-signature', GOOD], { body: null })).toEqual(['header_other', 'x-signature', null]);
    expect(find([HEADER, OTHER], { body: null })).toEqual(['body_too_large', HEADER, null]);
    expect(find([], { body: null })).toEqual(['header_missing', null, null]);
  });
});

describe('the signed body', () => {
  const value = JSON.parse(BODY);
  const spaced = (json: string) => json.replaceAll('":', '": ').replaceAll(',', ', ');
  const sorted = '{"a":{"y":null,"z":1},"b":[1,2.5],"id":10,"title":"Größe <b>"}';
  const ascii = (json: string) => json.replaceAll('ö', '\\u00f6').replaceAll('ß', '\\u00df');
  test.each([
    ['empty', BODY, '', 'body_empty'],
    ['without the line end', `${BODY}\n`, BODY, 'body_line_end'],
    ['without CR LF at the end', `${BODY}\r\n`, BODY, 'body_line_end'],
    ['with a line end', BODY, `${BODY}\n`, 'body_line_end'],
    ['with CR LF at the end', BODY, `${BODY}\r\n`, 'body_line_end'],
    ['trimmed', ` ${BODY}\n\n`, BODY, 'body_trimmed'],
    ['without its byte order mark', `\ufeff${BODY}`, BODY, 'body_trimmed'],
    ['with a byte order mark', BODY, `\ufeff${BODY}`, 'body_trimmed'],
    ['LF for CR LF', 'one\r\ntwo', 'one\ntwo', 'body_line_breaks'],
    ['CR LF for LF', 'one\ntwo', 'one\r\ntwo', 'body_line_breaks'],
    ['compact, of an indented one', JSON.stringify(value, null, 2), JSON.stringify(value), 'body_reencoded'],
    ['indented, of a compact one', JSON.stringify(value), JSON.stringify(value, null, 2), 'body_reencoded'],
    ['indented by four', BODY, JSON.stringify(value, null, 4), 'body_reencoded'],
    ['as JavaScript writes numbers', BODY, JSON.stringify(value), 'body_reencoded'],
    ['with sorted keys', BODY, sorted, 'body_reencoded'],
    ['as Python writes it', BODY, ascii(spaced(BODY)), 'body_reencoded'],
    ['as Python writes it without ASCII', BODY, spaced(BODY), 'body_reencoded'],
    ['as Python writes it, sorted', BODY, ascii(spaced(sorted)), 'body_reencoded'],
    ['compact, of what Python sent', ascii(spaced(BODY)), BODY, 'body_reencoded'],
    ['as PHP writes it', '{"u":"http://x/é"}', '{"u":"http:\\/\\/x\\/\\u00e9"}', 'body_reencoded'],
    ['as Go writes it', '{"u":"<a&b>"}', '{"u":"\\u003ca\\u0026b\\u003e"}', 'body_reencoded'],
    ['with keys that JavaScript orders as numbers', '{"b":1,"10":2,"9":3}', '{"9":3,"10":2,"b":1}', 'body_reencoded'],
    ['with number-like keys sorted as text', '{"b":1,"9":3,"10":2}', '{"10":2,"9":3,"b":1}', 'body_reencoded'],
    ['of numbers beyond JavaScript', '{"id": 12345678901234567890}', '{"id":12345678901234567890}', 'body_reencoded'],
    ['the JSON inside a form', `payload=${encodeURIComponent(BODY)}`, BODY, 'body_form_decoded'],
    ['the form decoded', 'a=1+2&b=%7B%7D', 'a=1 2&b={}', 'body_form_decoded'],
    ['Latin-1', 'Größe', Buffer.from('Größe', 'latin1'), 'body_charset'],
    ['UTF-16', 'Größe', Buffer.from('Größe', 'utf16le'), 'body_charset'],
    ['UTF-8, of Latin-1 that was sent', Buffer.from('Größe', 'latin1'), 'Größe', 'body_charset'],
    ['with replacement characters', Buffer.from([0x61, 0xff]), 'a\ufffd', 'body_charset'],
    ['another one', BODY, `${BODY} and more`, 'digest_differs'],
  ])('%s', (_, body, signed, reason) => {
    expect(body).not.toEqual(signed);
    const finding = find([HEADER, sign(SECRET, signed)], { body });
    expect(finding).toEqual([reason, HEADER, reason !== 'digest_differs']);
  });
});

describe('the key', () => {
  const random = createHash('sha256').update('some bytes').digest();
  test.each([
    ['trimmed', ` ${SECRET}\n`, SECRET, 'secret_space'],
    ['with a line end', SECRET, `${SECRET}\n`, 'secret_space'],
    ['with CR LF', SECRET, `${SECRET}\r\n`, 'secret_space'],
    ['without quotes', `"${SECRET}"`, SECRET, 'secret_space'],
    ['in quotes', SECRET, `'${SECRET}'`, 'secret_space'],
    ['decoded from hex', random.toString('hex'), random, 'secret_decoded'],
    ['decoded from base64', random.toString('base64'), random, 'secret_decoded'],
    ['decoded from base64 after whsec_', `whsec_${random.toString('base64')}`, random, 'secret_decoded'],
    ['without whsec_', 'whsec_abcdefgh', 'abcdefgh', 'secret_decoded'],
    ['empty', SECRET, '', 'secret_unset'],
    ['the word undefined', SECRET, 'undefined', 'secret_unset'],
    ['the word None', SECRET, 'None', 'secret_unset'],
    ['another one', SECRET, 'another secret', 'digest_differs'],
  ])('%s', (_, secret, key, reason) => {
    const finding = find([HEADER, sign(key, BODY)], { secrets: [{ bytes: Buffer.from(secret), expired: false }] });
    expect(finding).toEqual([reason, HEADER, reason !== 'digest_differs']);
  });

  test.each([
    ['of the body alone', createHash('sha256').update(BODY)],
    ['of secret and body', createHash('sha256').update(SECRET).update(BODY)],
    ['of body and secret', createHash('sha256').update(BODY).update(SECRET)],
    ['with key and body changed', createHmac('sha256', BODY).update(SECRET)],
  ])('a hash %s', (_, hash) => {
    expect(find([HEADER, `sha256=${hash.digest('hex')}`])).toEqual(['not_hmac', HEADER, true]);
  });

  test('the previous secret is distinguished from the current one, during and after the overlap', () => {
    const secrets = (expired: boolean) => [
      { bytes: Buffer.from('the present one'), expired: false },
      { bytes: Buffer.from(SECRET), expired },
    ];
    expect(find([HEADER, GOOD], { secrets: secrets(true) })).toEqual(['previous_secret', HEADER, true]);
    expect(find([HEADER, GOOD], { secrets: secrets(false) })).toEqual(['verifies_now', null, true]);
  });

  test('no secret is required any more', () => {
    expect(find([], { secrets: [] })).toEqual(['verifies_now', null, true]);
    expect(find([HEADER, OTHER], { secrets: [{ bytes: Buffer.from('x'), expired: true }] })[0]).toBe('verifies_now');
  });

  test('the request verifies only in the header that the webhook expects', () => {
    expect(find([HEADER, GOOD])).toEqual(['verifies_now', null, true]);
    expect(find(['x-webhook-signature', GOOD])).toEqual(['verifies_now', null, true]);
    expect(find(['x-own', GOOD], { signatureHeader: 'x-own' })).toEqual(['verifies_now', null, true]);
  });
});

describe('the secret of another webhook', () => {
  const others = [
    { id: 'billing', secrets: [Buffer.from('of billing'), Buffer.from('of billing before')] },
    { id: 'open', secrets: [] },
    { id: 'orders', secrets: [Buffer.from('of orders')] },
  ];
  const signerOf = (headers: string[], body: string | null = BODY) => {
    const { reason, otherwiseValid, otherWebhookId } = diagnose({ ...refused(headers, { body }), others });
    return [reason, otherwiseValid, otherWebhookId];
  };

  test.each([
    ['of billing', 'billing'],
    ['of billing before', 'billing'],
    ['of orders', 'orders'],
  ])('%s reports which one', (key, id) => {
    expect(signerOf([HEADER, sign(key, BODY)])).toEqual(['other_webhook', true, id]);
  });

  test('is not searched when the webhook’s own secret explains the digest, or nothing can', () => {
    expect(signerOf([HEADER, GOOD])).toEqual(['verifies_now', true, undefined]);
    expect(signerOf([HEADER, sign(SECRET, '')])).toEqual(['body_empty', true, undefined]);
    expect(signerOf([HEADER, hex('of orders', BODY)])).toEqual(['malformed_no_prefix', false, undefined]);
    expect(signerOf([HEADER, sign('of orders', BODY)], null)).toEqual(['body_too_large', null, undefined]);
    expect(signerOf([HEADER, OTHER])).toEqual(['digest_differs', false, undefined]);
  });
});

describe('another scheme', () => {
  const base64 = (key: string | Buffer, text: string) => mac(key, text).toString('base64');
  const raw = Buffer.from('c2VjcmV0IGtleSBvZiBzdmlv', 'base64');
  const whsec = `whsec_${raw.toString('base64')}`;
  const schemes: [string, string, (key: string) => string[]][] = [
    ['scheme_stripe', 'stripe-signature', (key) => ['stripe-signature', `t=17,v1=${hex(key, `17.${BODY}`)},v0=00`]],
    [
      'scheme_slack',
      'x-slack-signature',
      (key) => ['x-slack-signature', `v0=${hex(key, `v0:17:${BODY}`)}`, 'x-slack-request-timestamp', '17'],
    ],
    [
      'scheme_zoom',
      'x-zm-signature',
      (key) => ['x-zm-request-timestamp', '17', 'x-zm-signature', `v0=${hex(key, `v0:17:${BODY}`)}`],
    ],
    [
      'scheme_standard_webhooks',
      'webhook-signature',
      (key) => [
        ...['webhook-id', 'msg_1', 'webhook-timestamp', '17'],
        ...['webhook-signature', `v1,${base64('x', 'y')} v1,${base64(key, `msg_1.17.${BODY}`)}`],
      ],
    ],
    ['scheme_shopify', 'x-shopify-hmac-sha256', (key) => ['x-shopify-hmac-sha256', base64(key, BODY)]],
    ['scheme_paddle', 'paddle-signature', (key) => ['paddle-signature', `ts=17;h1=${hex(key, `17:${BODY}`)}`]],
    [
      'scheme_github_sha1',
      'x-hub-signature',
      (key) => ['x-hub-signature', `sha1=${mac(key, BODY, 'sha1').toString('hex')}`],
    ],
    ['scheme_gitlab', 'x-gitlab-token', (key) => ['x-gitlab-token', key]],
  ];

  test.each(schemes)('%s, and whether the secret is right', (reason, header, headers) => {
    expect(find(headers(SECRET))).toEqual([reason, header, true]);
    expect(find(headers('another secret'))).toEqual([reason, header, false]);
    expect(find(headers(SECRET), { body: null })).toEqual([reason, header, null]);
    expect(find(headers(SECRET), { signatureHeader: header })).toEqual([reason, header, true]);
    expect(find([HEADER, OTHER, ...headers('another secret')])[0]).toBe('digest_differs');
  });

  test('svix, whose key is in base64', () => {
    const headers = ['svix-id', 'm', 'svix-timestamp', '17', 'svix-signature', `v1,${base64(raw, `m.17.${BODY}`)}`];
    const secrets = [{ bytes: Buffer.from(whsec), expired: false }];
    expect(find(headers, { secrets })).toEqual(['scheme_standard_webhooks', 'svix-signature', true]);
  });

  test.each([
    ['scheme_twilio', 'x-twilio-signature', mac(SECRET, BODY, 'sha1').toString('base64')],
    ['scheme_ed25519', 'x-signature-ed25519', 'a0'.repeat(64)],
  ])('%s, which cannot be verified from the request', (reason, header, value) => {
    expect(find([header, value])).toEqual([reason, header, null]);
  });
});

test('every reason has a hint of one or two sentences', () => {
  for (const hint of Object.values(rejectionReasons)) expect(hint).toMatch(/^[A-Z].{20,260}\.$/);
});

test('any input gets a reason, and a wrong signature never verifies', () => {
  const name = fc.constantFrom(
    HEADER,
    'x-webhook-signature',
    'stripe-signature',
    'webhook-signature',
    'x-any',
    'svix-id',
  );
  const value = fc.oneof(fc.string(), fc.constantFrom(OTHER, 'sha256=', 't=1,v1=00', 'v1,', '"', '='));
  fc.assert(
    fc.property(
      fc.array(fc.tuple(name, value), { maxLength: 4 }),
      fc.uint8Array({ maxLength: 200 }),
      (fields, body) => {
        const [reason] = find(fields.flat(), { body: Buffer.from(body) });
        expect(Object.keys(rejectionReasons)).toContain(reason);
        expect(reason).not.toBe('verifies_now');
      },
    ),
  );
});

test.each([
  ['brackets', '['.repeat(32_768) + ']'.repeat(32_768)],
  ['objects', `${'{"a":'.repeat(9_000)}1${'}'.repeat(9_000)}`],
  ['quotes', '"\\"'.repeat(20_000)],
  ['keys', `{${Array.from({ length: 6_000 }, (_, i) => `"k${i}":1`).join(',')}}`],
  ['fields', 'a=%41&'.repeat(10_000)],
])('a hostile body of 64 KiB of %s is diagnosed', (_, body) => {
  expect(find([HEADER, OTHER], { body })).toEqual(['digest_differs', HEADER, false]);
});

test.each([
  ['repeats the expected one', OTHER, () => HEADER],
  ['repeats it without a prefix', OTHER.slice('sha256='.length), () => HEADER],
  ['has others', OTHER, (i: number) => `x-any-${i}`],
])('a request with 90 digests whose header %s costs little more than one with two', (_, value, nameOf) => {
  const body = Buffer.alloc(1_048_576, 'a');
  const cpuMs = (digests: number) => {
    const headers = Array.from({ length: digests }, (_, i) => [nameOf(i), value]).flat();
    const before = process.cpuUsage();
    find(headers, { body });
    return process.cpuUsage(before).user / 1_000;
  };
  cpuMs(2);
  expect(cpuMs(90)).toBeLessThan(3 * cpuMs(2) + 20);
});
