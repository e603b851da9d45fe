import { describe, expect, test } from 'vitest';
import { loadOptions } from '../../k6/lib/options.ts';
import { readLoadSettings, readSmokeSettings, unknownWebhookUrl } from '../../k6/lib/settings.ts';

const url = 'http://127.0.0.1:8080/in/5f0c1d5e-0000-4000-8000-000000000001';
const target = { WEIR_URL: url, WEIR_SECRET: 's' };

test('address and secret are enough', () => {
  expect(readSmokeSettings(target)).toEqual({ url, secret: 's', payloadBytesMax: 1_048_576 });
  expect(readLoadSettings(target)).toEqual({
    url,
    secret: 's',
    ratePerSecond: 200,
    duration: '30s',
    vus: 50,
    bodyBytes: 1024,
  });
});

test('an empty variable counts as unset', () => {
  const empty = { ...target, RATE: '', DURATION: '', VUS: '', BODY_BYTES: '', WEBHOOK_MAX_PAYLOAD_BYTES: '' };
  expect(readLoadSettings(empty)).toEqual(readLoadSettings(target));
  expect(readSmokeSettings(empty)).toEqual(readSmokeSettings(target));
});

test('every variable is read', () => {
  const settings = readLoadSettings({ ...target, RATE: '5000', DURATION: '1h30m', VUS: '400', BODY_BYTES: '16384' });
  expect(settings).toEqual({ url, secret: 's', ratePerSecond: 5000, duration: '1h30m', vus: 400, bodyBytes: 16_384 });
  expect(readSmokeSettings({ ...target, WEBHOOK_MAX_PAYLOAD_BYTES: '2048' }).payloadBytesMax).toBe(2048);
});

describe('an error names the variable and the mend', () => {
  test.each([
    [{ WEIR_URL: '' }, 'WEIR_URL is unset; it must be the endpoint'],
    [{ WEIR_URL: '127.0.0.1:8080/in/x' }, 'WEIR_URL is "127.0.0.1:8080/in/x"; it must be'],
    [{ WEIR_URL: 'http://127.0.0.1:8080' }, 'WEIR_URL is "http://127.0.0.1:8080"; it must be'],
    [{ WEIR_URL: `${url}/batch` }, 'WEIR_URL is'],
    [{ WEIR_URL: `${url}?a=1` }, 'WEIR_URL is'],
    [{ WEIR_SECRET: '' }, 'WEIR_SECRET is unset; it must be the secret'],
    [{ RATE: '0' }, 'RATE is "0"; allowed: a whole number from 1 to 1000000'],
    [{ RATE: 'many' }, 'RATE is "many"; allowed'],
    [{ RATE: '1000001' }, 'RATE is "1000001"; allowed'],
    [{ VUS: '1.5' }, 'VUS is "1.5"; allowed: a whole number from 1 to 100000'],
    [{ BODY_BYTES: '-1' }, 'BODY_BYTES is "-1"; allowed'],
    [{ DURATION: '30' }, 'DURATION is "30"; allowed: a time as k6 writes it'],
    [{ DURATION: '0s' }, 'DURATION is "0s"; allowed'],
  ])('%j', (wrong, message) => {
    expect(() => readLoadSettings({ ...target, ...wrong })).toThrow(message);
  });

  test('the secret is never in it', () => {
    expect(() => readLoadSettings({ ...target, WEIR_SECRET: 'hush', RATE: 'x' })).toThrow(/^(?!.*hush)/);
  });
});

test('the unknown webhook is at the same server', () => {
  expect(unknownWebhookUrl(url)).toBe('http://127.0.0.1:8080/in/00000000-0000-4000-8000-000000000000');
});

test('the load is a constant arrival rate, failed by errors, by slowness and by dropped iterations', () => {
  const options = loadOptions(readLoadSettings({ ...target, RATE: '300', DURATION: '5s', VUS: '20' }));
  expect(options.scenarios).toEqual({
    load: { executor: 'constant-arrival-rate', rate: 300, timeUnit: '1s', duration: '5s', preAllocatedVUs: 20 },
  });
  expect(options.thresholds).toEqual({
    http_req_failed: ['rate<0.001'],
    http_req_duration: ['p(99)<60'],
    dropped_iterations: ['count==0'],
  });
});
