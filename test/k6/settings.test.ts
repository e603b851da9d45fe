import { describe, expect, test } from 'vitest';
import {
  eventUrl,
  readAgentsSettings,
  readLoadSettings,
  readOverloadSettings,
  readScaleSettings,
  readSmokeSettings,
  readSoakSettings,
  unknownWebhookUrl,
} from '../../k6/lib/settings.ts';
import { defaultScheme } from '../../k6/lib/signing.ts';

const url = 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001';
const target = { WEBHOOK_URL: url, WEIR_SECRET: 's' };

const readTarget = { url, secret: 's', scheme: defaultScheme };

test('an empty variable counts as unset', () => {
  const names =
    'RATE DURATION VUS BODY_BYTES P99_MS WEBHOOK_MAX_PAYLOAD_BYTES RATE_START RATE_PEAK RECOVERY_P99_MS WEIR_TOKEN WEIR_SCHEME METRICS_URL LATE_LATENCY_PERCENT_MAX LATE_MEMORY_PERCENT_MAX STEPS RUNS AGENTS CLAIM_MAX DELIVERY_P95_MS';
  const empty = { ...target, ...Object.fromEntries(names.split(' ').map((name) => [name, ''])) };
  expect(readLoadSettings(empty)).toEqual(readLoadSettings(target));
  expect(readSmokeSettings(empty)).toEqual(readSmokeSettings(target));
  expect(readOverloadSettings(empty)).toEqual(readOverloadSettings(target));
  expect(readSoakSettings(empty)).toEqual(readSoakSettings(target));
  const agent = { WEIR_CREDENTIAL: 'wa_x' };
  expect(readAgentsSettings({ ...empty, ...agent })).toEqual(readAgentsSettings({ ...target, ...agent }));
  expect(readScaleSettings({ ...empty, WORKERS: '1' })).toEqual(readScaleSettings({ ...target, WORKERS: '1' }));
});

test('every variable is read', () => {
  const common = { ...target, DURATION: '1h30m2s5ms', VUS: '400', BODY_BYTES: '16384', P99_MS: '7' };
  const read = { ...readTarget, bodyBytes: 16_384, durationMs: 5_402_005, p99Ms: 7 };
  expect(readSmokeSettings({ ...target, WEBHOOK_MAX_PAYLOAD_BYTES: '2048' }).payloadBytesMax).toBe(2048);
  expect(readLoadSettings({ ...common, RATE: '5000' })).toEqual({ ...read, vus: 400, ratePerSecond: 5_000 });
  expect(
    readOverloadSettings({ ...common, RATE_START: '1', RATE_PEAK: '2', RECOVERY_P99_MS: '3', WEIR_TOKEN: 'wu_x' }),
  ).toEqual({ ...read, vus: 400, startPerSecond: 1, peakPerSecond: 2, recoveryP99Ms: 3, token: 'wu_x' });
  const late = { LATE_LATENCY_PERCENT_MAX: '120', LATE_MEMORY_PERCENT_MAX: '110' };
  expect(readSoakSettings({ ...common, ...late, RATE: '90', METRICS_URL: 'http://weir:1/metrics' })).toEqual({
    ...read,
    vus: 400,
    ratePerSecond: 90,
    metricsUrl: 'http://weir:1/metrics',
    lateLatencyPercentMax: 120,
    lateMemoryPercentMax: 110,
  });
  const agents = { WEIR_CREDENTIAL: 'wa_x', AGENTS: '9', CLAIM_MAX: '500', DELIVERY_P95_MS: '8' };
  expect(readAgentsSettings({ ...common, ...agents })).toMatchObject({ agents: 9, claimMax: 500, deliveryP95Ms: 8 });
  expect(readScaleSettings({ ...common, WORKERS: '4', STEPS: '1, 2,30', RUNS: '/tmp/runs' })).toEqual({
    ...read,
    steps: [1, 2, 30],
    workers: 4,
    runsFile: '/tmp/runs',
  });
});

test('a scheme is read from its definition, and from what the command prints', () => {
  const definition = { algorithm: 'hmac-sha1', header: 'x-own' };
  for (const given of [definition, { name: 'own', definition }])
    expect(readLoadSettings({ ...target, WEIR_SCHEME: JSON.stringify(given) }).scheme).toEqual(definition);
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
    [{ RATE: '0' }, 'RATE is "0"; allowed: a whole number from 1 to 1000000'],
    [{ RATE: 'many' }, 'RATE is "many"; allowed'],
    [{ RATE: '1000001' }, 'RATE is "1000001"; allowed'],
    [{ VUS: '1.5' }, 'VUS is "1.5"; allowed: a whole number from 1 to 100000'],
    [{ BODY_BYTES: '-1' }, 'BODY_BYTES is "-1"; allowed'],
    [{ DURATION: '30' }, 'DURATION is "30"; allowed: a time as k6 writes it'],
    [{ DURATION: '0s' }, 'DURATION is "0s"; allowed'],
    [{ DURATION: '721h' }, 'DURATION is "721h"; allowed'],
    [{ P99_MS: 'quick' }, 'P99_MS is "quick"; allowed'],
  ])('%j', (wrong, message) => {
    expect(() => readLoadSettings({ ...target, ...wrong })).toThrow(message);
  });

  test.each([
    [readOverloadSettings, { RATE_START: '0' }, 'RATE_START is "0"; allowed: a whole number'],
    [readOverloadSettings, { RATE_START: '9', RATE_PEAK: '9' }, 'RATE_PEAK is 9; it must be larger than RATE_START'],
    [readOverloadSettings, { RECOVERY_P99_MS: '60001' }, 'RECOVERY_P99_MS is "60001"; allowed'],
    [readSoakSettings, { METRICS_URL: '127.0.0.1:9464' }, 'METRICS_URL is "127.0.0.1:9464"; it must be a full address'],
    [readSoakSettings, { LATE_LATENCY_PERCENT_MAX: '1.5' }, 'LATE_LATENCY_PERCENT_MAX is "1.5"; allowed'],
    [readSoakSettings, { LATE_MEMORY_PERCENT_MAX: '125%' }, 'LATE_MEMORY_PERCENT_MAX is "125%"; allowed'],
    [readSoakSettings, { DURATION: '249s' }, 'DURATION is too short: each of 200 VUS would send 49 early requests'],
    [readAgentsSettings, {}, 'WEIR_CREDENTIAL is unset; it must be the credential of an agent'],
    [
      readAgentsSettings,
      { WEIR_CREDENTIAL: 'wa_x', CLAIM_MAX: '1001' },
      'CLAIM_MAX is "1001"; allowed: a whole number',
    ],
    [readScaleSettings, {}, 'WORKERS is unset; allowed: a whole number from 1 to 1024'],
    [readScaleSettings, { WORKERS: '1', STEPS: '16,many' }, 'STEPS is "many"; allowed: a whole number'],
    [readScaleSettings, { WORKERS: '1', STEPS: '16,16' }, 'STEPS is "16,16"; each number must be larger'],
  ])('%o %j', (readSettings, wrong, message) => {
    expect(() => readSettings({ ...target, ...wrong })).toThrow(message);
  });

  test('the error never contains the secret', () => {
    expect(() => readLoadSettings({ ...target, WEIR_SECRET: 'hush', RATE: 'x' })).toThrow(/^(?!.*hush)/);
  });
});

test('the unknown webhook has the same server', () => {
  expect(unknownWebhookUrl(url)).toBe('http://127.0.0.1:8080/in/00000000-0000-4000-8000-000000000000');
});

test('an event is looked up at the same server', () => {
  expect(eventUrl(url, 'e1')).toBe('http://127.0.0.1:8080/api/v1/events/e1');
});
