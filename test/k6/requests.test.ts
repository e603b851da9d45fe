import { createHmac } from 'node:crypto';
import { deflateRawSync } from 'node:zlib';
import { describe, expect, test } from 'vitest';
import { drawOf, readWebhooks } from '../../k6/lib/mix.ts';
import { payloadOf } from '../../k6/lib/payloads.ts';
import { apiUrl, readSettings, readTarget, unknownWebhookUrl, withOtherSecret } from '../../k6/lib/settings.ts';
import { defaultScheme, isRepeatable, isSupported, type Primitives, signatureHeaders } from '../../k6/lib/signing.ts';
import { keysOf } from '../../server/model/signatures/keys.ts';
import { presets } from '../../server/model/signatures/presets.ts';
import { URL_OF_HOOK, verifies } from '../helpers/signed.ts';

const url = 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001';
const target = { WEBHOOK_URL: url, WEIR_SECRET: 's' };

test('a setting is read from the environment, and an empty variable counts as unset', () => {
  const fallbacks = { RATE: 200, DURATION: '30s', STEPS: '16,64', METRICS_URL: '', SUMMARY: '' };
  const read = { RATE: 200, DURATION: 30_000, STEPS: [16, 64], METRICS_URL: '', SUMMARY: '' };
  expect(readSettings({ RATE: '', DURATION: '', METRICS_URL: '' }, fallbacks)).toEqual(read);
  const given = { RATE: '9', DURATION: '1h30m2s5ms', STEPS: '1, 2,30', METRICS_URL: 'http://weir:1/metrics', VUS: '7' };
  expect(readSettings(given, fallbacks)).toEqual({
    ...{ RATE: 9, DURATION: 5_402_005, STEPS: [1, 2, 30] },
    ...{ METRICS_URL: given.METRICS_URL, SUMMARY: '' },
  });
});

test('a scheme is read from its definition, and from what the command prints', () => {
  expect(readTarget(target)).toEqual({ url, secret: 's', scheme: defaultScheme });
  const definition = { algorithm: 'hmac-sha1', header: 'x-own' };
  for (const given of [definition, { name: 'own', definition }])
    expect(readTarget({ ...target, WEIR_SCHEME: JSON.stringify(given) }).scheme).toEqual(definition);
});

test.each([
  [{ WEBHOOK_URL: '' }, 'WEBHOOK_URL is unset; it must be the full URL of the webhook'],
  [{ WEBHOOK_URL: 'http://127.0.0.1:8080' }, 'WEBHOOK_URL is "http://127.0.0.1:8080"; it must be'],
  [{ WEBHOOK_URL: `${url}/batch` }, 'WEBHOOK_URL is'],
  [{ WEIR_SECRET: '' }, 'WEIR_SECRET is unset; it must be the secret'],
  [{ WEIR_SCHEME: 'stripe' }, 'WEIR_SCHEME is not a signature scheme; give the output of: weir scheme show'],
  [{ WEIR_SCHEME: '{}' }, 'WEIR_SCHEME is not a signature scheme'],
  [
    { WEIR_SCHEME: '{"algorithm":"hmac-sha256","timestamp":{"from":"json:/t"}}' },
    'WEIR_SCHEME has the algorithm hmac-sha256; supported: hmac-sha256, hmac-sha1 and hmac-sha512, with the time in a header',
  ],
])('%j names the variable and what is allowed', (wrong, message) => {
  expect(() => readTarget({ ...target, ...wrong })).toThrow(message);
});

test.each([
  ['RATE', '0', 'RATE is "0"; allowed: a whole number from 1 to 1000000'],
  ['RATE', '1000001', 'RATE is "1000001"; allowed'],
  ['VUS', '1.5', 'VUS is "1.5"; allowed: a whole number from 1 to 100000'],
  ['WORKERS', '', 'WORKERS is unset; allowed: a whole number from 1 to 1024'],
  ['DURATION', '30', 'DURATION is "30"; allowed: a time as k6 writes it'],
  ['DURATION', '721h', 'DURATION is "721h"; allowed'],
  ['STEPS', '16,many', 'STEPS is "many"; allowed: a whole number'],
  ['STEPS', '16,16', 'STEPS is "16,16"; each number must be larger'],
  ['METRICS_URL', '127.0.0.1:9464', 'METRICS_URL is "127.0.0.1:9464"; it must be a full address'],
] as const)('%s=%s is refused with what is allowed', (name, value, message) => {
  expect(() => readSettings({ [name]: value }, { [name]: '' } as never)).toThrow(message);
});

test('other addresses of the server, and another secret, are derived from the target', () => {
  expect(unknownWebhookUrl(url)).toBe('http://127.0.0.1:8080/in/00000000-0000-4000-8000-000000000000');
  expect(apiUrl(url, 'events/e1')).toBe('http://127.0.0.1:8080/api/v1/events/e1');
  expect(withOtherSecret(readTarget(target)).secret).toBe('s1111');
});

test('a payload has its exact size, is JSON, follows from its seed, and is hardly compressible', () => {
  for (const bytes of [1, 2, 38, 39, 40, 41, 42, 43, 1024, 1_048_577]) {
    const body = payloadOf(bytes, 7);
    expect(Buffer.byteLength(body)).toBe(bytes);
    expect(() => JSON.parse(body)).not.toThrow();
  }
  expect(payloadOf(1024, 7)).toBe(payloadOf(1024, 7));
  expect(payloadOf(1024, 8)).not.toBe(payloadOf(1024, 7));
  // Six random bits a letter keep three quarters of its size.
  expect(deflateRawSync(payloadOf(65_536, 7), { level: 9 }).length / 65_536).toBeGreaterThan(0.74);
  for (const bytes of [0, 1.5, Number.NaN]) expect(() => payloadOf(bytes, 1)).toThrow('the minimum is 1');
});

describe('a mix', () => {
  const plain = { url: 'http://w/in/1', secret: 's', scheme: { definition: { algorithm: 'hmac-sha256' } } };
  const scheme = { algorithm: 'hmac-sha256', timestamp: { from: 'header:x-time' } };
  const timed = { ...plain, url: 'http://w/in/2', scheme, dedupe_header: 'X-Id' };
  const file = [plain, timed].map((one) => JSON.stringify(one)).join('\n');
  const draws = (count: number, ...given: [webhooks: ReturnType<typeof readWebhooks>, sizes: number[]]) =>
    Array.from({ length: count }, (_, i) => drawOf(i, ...given));

  test('reads webhooks from lines of JSON, and names an invalid line', () => {
    expect(readWebhooks(`${file}\n\n`)).toEqual([
      { url: plain.url, secret: 's', scheme: { algorithm: 'hmac-sha256' }, dedupeHeader: null },
      { url: timed.url, secret: 's', scheme, dedupeHeader: 'X-Id' },
    ]);
    expect(() => readWebhooks('')).toThrow('WEBHOOKS is empty');
    for (const wrong of ['oops', JSON.stringify({ ...plain, secret: null })])
      expect(() => readWebhooks(`${JSON.stringify(plain)}\n${wrong}`)).toThrow('Line 2 of WEBHOOKS is not a webhook');
    const stripe = JSON.stringify({ ...plain, scheme: 'stripe' });
    expect(() => readWebhooks(stripe)).toThrow('Line 1 of WEBHOOKS is not a signature');
  });

  test('of 20 requests, has four of other kinds than events, and only where the webhook supports them', () => {
    const drawn = draws(400, readWebhooks(file), [10, 20, 30]);
    const of = (kind: string) => drawn.filter((draw) => draw.kind === kind);
    for (const kind of ['batch', 'duplicate', 'wrong_secret', 'unknown_webhook']) expect(of(kind)).toHaveLength(20);
    expect(new Set(of('batch').map(({ webhook }) => webhook.url))).toEqual(new Set([plain.url]));
    expect(new Set(of('duplicate').map(({ webhook }) => webhook.url))).toEqual(new Set([timed.url]));
    const alone = draws(20, readWebhooks(file).slice(0, 1), [10]);
    expect(alone.filter(({ kind }) => kind === 'event')).toHaveLength(17);
  });

  test('sends each webhook events of each size', () => {
    const webhooks = [1, 2, 3, 4].map((n) => ({ ...readWebhooks(file)[0]!, url: `http://w/in/${n}` }));
    const events = draws(400, webhooks, [1, 2, 3, 4]).filter(({ kind }) => kind === 'event');
    expect(new Set(events.map(({ webhook, bytes }) => `${webhook.url} ${bytes}`)).size).toBe(16);
  });
});

describe('a signature', () => {
  /** Like k6's functions: b64decode rejects padding and impossible lengths. */
  const primitives: Primitives = {
    hmac: (hash, key, data, encoding) =>
      createHmac(hash, typeof key === 'string' ? key : new Uint8Array(key))
        .update(data)
        .digest(encoding),
    b64decode(text) {
      if (!/^[A-Za-z0-9+/]+$/.test(text) || text.length % 4 === 1) throw new Error('illegal base64 data');
      return new Uint8Array(Buffer.from(text, 'base64')).buffer;
    },
  };
  const request = { secret: 'hüsh', url: URL_OF_HOOK, id: 'k6-1', timeMs: 1_760_000_000_000 };
  const body = payloadOf(1024, 1);

  test.each([
    // GitHub, «Validating webhook deliveries»: testing the webhook payload validation.
    ['Hello, World!', "It's a Secret to Everybody", '757107ea0eb2509fc211221cce984b8a37570b6d7586c22c46f4379c8b043e17'],
    ['', 'hüsh', createHmac('sha256', 'hüsh').digest('hex')],
    [
      '{"größe":"水 🌊"}\r\n',
      'hüsh',
      createHmac('sha256', 'hüsh').update('{"größe":"水 🌊"}\r\n', 'utf8').digest('hex'),
    ],
  ])('of the default scheme over %j is sha256= and the HMAC-SHA256 of its UTF-8 bytes', (text, secret, digest) => {
    expect(signatureHeaders(defaultScheme, { ...request, body: text, secret }, primitives)).toEqual({
      'X-Hub-Signature-256': `sha256=${digest}`,
    });
  });

  // `sha256` names no header: see the default scheme.
  const supported = presets.filter(({ name, definition }) => name !== 'sha256' && isSupported(definition));
  const secrets = { text: 'hüsh', hex: '00ff7A'.repeat(8), base64: 'whsec_+/8A/7/xMfKQ9r8GKYqrTwjUPD8ILPZIo2LaLa==' };

  test.each(supported.map(({ name, definition }) => [name, definition] as const))(
    'of %s verifies, and not with the secret that smoke takes for another',
    (_, definition) => {
      const secret = { ...secrets, 'text-or-base64': secrets.base64 }[definition.secret ?? 'text'];
      const keys = keysOf(definition, Buffer.from(secret));
      const signedWith = (given: string) => ({
        headers: signatureHeaders(definition, { ...request, body, secret: given }, primitives),
        body: Buffer.from(body),
      });
      expect(verifies(definition, keys, signedWith(secret))).toBe(true);
      expect(verifies(definition, keys, signedWith(`${secret}1111`))).toBe(false);
    },
  );

  test('can be made for most senders, and be sent again for some', () => {
    expect(supported.length).toBeGreaterThan(presets.length / 2);
    const repeatable = (name: string) => isRepeatable(presets.find((preset) => preset.name === name)!.definition);
    expect(['github', 'stripe', 'svix'].map(repeatable)).toEqual([true, false, false]);
  });
});
