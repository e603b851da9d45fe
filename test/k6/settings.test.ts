import { describe, expect, test } from 'vitest';
import { apiUrl, readSettings, readTarget, unknownWebhookUrl, withOtherSecret } from '../../k6/lib/settings.ts';
import { defaultScheme } from '../../k6/lib/signing.ts';

const url = 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001';
const target = { WEBHOOK_URL: url, WEIR_SECRET: 's' };

test('a setting is read from the environment, and an empty variable counts as unset', () => {
  const fallbacks = { RATE: 200, DURATION: '30s', STEPS: '16,64', METRICS_URL: '', SUMMARY: '' };
  const read = { RATE: 200, DURATION: 30_000, STEPS: [16, 64], METRICS_URL: '', SUMMARY: '' };
  expect(readSettings({}, fallbacks)).toEqual(read);
  expect(readSettings({ RATE: '', DURATION: '', STEPS: '', METRICS_URL: '' }, fallbacks)).toEqual(read);
  const given = {
    RATE: '9',
    DURATION: '1h30m2s5ms',
    STEPS: '1, 2,30',
    METRICS_URL: 'http://weir:1/metrics',
    SUMMARY: 'a',
  };
  expect(readSettings({ ...given, VUS: '7' }, fallbacks)).toEqual({
    ...given,
    RATE: 9,
    DURATION: 5_402_005,
    STEPS: [1, 2, 30],
  });
});

test('a scheme is read from its definition, and from what the command prints', () => {
  expect(readTarget(target)).toEqual({ url, secret: 's', scheme: defaultScheme });
  const definition = { algorithm: 'hmac-sha1', header: 'x-own' };
  for (const given of [definition, { name: 'own', definition }])
    expect(readTarget({ ...target, WEIR_SCHEME: JSON.stringify(given) }).scheme).toEqual(definition);
});

describe('an error names the variable and what is allowed', () => {
  test.each([
    [{ WEBHOOK_URL: '' }, 'WEBHOOK_URL is unset; it must be the full URL of the webhook'],
    [{ WEBHOOK_URL: '127.0.0.1:8080/in/x' }, 'WEBHOOK_URL is "127.0.0.1:8080/in/x"; it must be'],
    [{ WEBHOOK_URL: 'http://127.0.0.1:8080' }, 'WEBHOOK_URL is "http://127.0.0.1:8080"; it must be'],
    [{ WEBHOOK_URL: `${url}/batch` }, 'WEBHOOK_URL is'],
    [{ WEBHOOK_URL: `${url}?a=1` }, 'WEBHOOK_URL is'],
    [{ WEIR_SECRET: '' }, 'WEIR_SECRET is unset; it must be the secret'],
    [{ WEIR_SCHEME: 'stripe' }, 'WEIR_SCHEME is not a signature scheme; give the output of: weir scheme show'],
    [{ WEIR_SCHEME: '{}' }, 'WEIR_SCHEME is not a signature scheme'],
    [{ WEIR_SCHEME: 'null' }, 'WEIR_SCHEME is not a signature scheme'],
    [{ WEIR_SCHEME: '{"algorithm":"ed25519"}' }, 'WEIR_SCHEME has the algorithm ed25519; supported: hmac-sha256'],
    [
      { WEIR_SCHEME: '{"algorithm":"hmac-sha256","timestamp":{"from":"json:/t"}}' },
      'WEIR_SCHEME has the algorithm hmac-sha256; supported: hmac-sha256, hmac-sha1 and hmac-sha512, with the time in a header',
    ],
  ])('%j', (wrong, message) => {
    expect(() => readTarget({ ...target, ...wrong })).toThrow(message);
  });

  test.each([
    ['RATE', '0', 'RATE is "0"; allowed: a whole number from 1 to 1000000'],
    ['RATE', 'many', 'RATE is "many"; allowed'],
    ['RATE', '1000001', 'RATE is "1000001"; allowed'],
    ['VUS', '1.5', 'VUS is "1.5"; allowed: a whole number from 1 to 100000'],
    ['BODY_BYTES', '-1', 'BODY_BYTES is "-1"; allowed'],
    ['CLAIM_MAX', '1001', 'CLAIM_MAX is "1001"; allowed: a whole number'],
    ['WORKERS', '', 'WORKERS is unset; allowed: a whole number from 1 to 1024'],
    ['DURATION', '30', 'DURATION is "30"; allowed: a time as k6 writes it'],
    ['DURATION', '0s', 'DURATION is "0s"; allowed'],
    ['DURATION', '721h', 'DURATION is "721h"; allowed'],
    ['STEPS', '16,many', 'STEPS is "many"; allowed: a whole number'],
    ['STEPS', '16,16', 'STEPS is "16,16"; each number must be larger'],
    ['METRICS_URL', '127.0.0.1:9464', 'METRICS_URL is "127.0.0.1:9464"; it must be a full address'],
    ['WEIR_CREDENTIAL', '', 'WEIR_CREDENTIAL is unset; it must be the credential of an agent'],
  ] as const)('%s=%s', (name, value, message) => {
    expect(() => readSettings({ [name]: value }, { [name]: '' } as never)).toThrow(message);
  });
});

test('other addresses of the server, and another secret, are derived from the target', () => {
  expect(unknownWebhookUrl(url)).toBe('http://127.0.0.1:8080/in/00000000-0000-4000-8000-000000000000');
  expect(apiUrl(url, 'events/e1')).toBe('http://127.0.0.1:8080/api/v1/events/e1');
  expect(withOtherSecret(readTarget(target)).secret).toBe('s1111');
});
