import { describe, expect, test } from 'vitest';
import { type Addresses, checkOrigins, checkProxies } from '../../../server/operate/doctor/origins.ts';

const addresses = (given: Partial<Addresses>): Addresses => ({
  HOST: '127.0.0.1',
  PUBLIC_URL: 'https://weir.example',
  FRONTEND_PUBLIC_API_URL: given.PUBLIC_URL ?? 'https://weir.example',
  CORS_ORIGINS: [],
  TRUSTED_PROXIES: [],
  ...given,
});

describe('the doctor compares origins', () => {
  test.each<[string, Partial<Addresses>, string, string | null]>([
    ['one for pages and API', {}, 'ok', null],
    [
      'two, the pages allowed',
      { FRONTEND_PUBLIC_API_URL: 'https://api.example', CORS_ORIGINS: ['https://weir.example'] },
      'ok',
      null,
    ],
    [
      'two, the pages not allowed',
      { FRONTEND_PUBLIC_API_URL: 'https://api.example' },
      'problem',
      'add https://weir.example to CORS_ORIGINS',
    ],
    [
      'https pages that call http',
      { FRONTEND_PUBLIC_API_URL: 'http://api.example', CORS_ORIGINS: ['https://weir.example'] },
      'problem',
      'https origin',
    ],
    [
      'public, but listed as local',
      { HOST: '0.0.0.0', PUBLIC_URL: 'http://127.0.0.1:8080' },
      'advice',
      'set PUBLIC_URL',
    ],
    [
      'a page by http that may call an https API',
      { CORS_ORIGINS: ['http://console.example'] },
      'advice',
      'https origins',
    ],
    ['a page by http on the own machine', { CORS_ORIGINS: ['http://localhost:5173'] }, 'ok', null],
    ['a page by https', { CORS_ORIGINS: ['https://console.example'] }, 'ok', null],
    ['local all through', { PUBLIC_URL: 'http://127.0.0.1:8080' }, 'ok', null],
    ['local by IPv6', { HOST: '::1', PUBLIC_URL: 'http://[::1]:8080' }, 'ok', null],
  ])('%s', (_, given, state, fix) => {
    const [check, ...more] = checkOrigins(addresses(given));
    expect(more).toEqual([]);
    expect(check!.state).toBe(state);
    if (fix === null) expect(check!.fix).toBeNull();
    else expect(check!.fix).toContain(fix);
  });
});

describe('the doctor checks the trusted proxies', () => {
  test.each<[string, Partial<Addresses>, string]>([
    ['none, no TLS', { PUBLIC_URL: 'http://weir.example' }, 'ok'],
    ['none, though https says that one is there', {}, 'advice'],
    ['one', { TRUSTED_PROXIES: ['10.0.0.1'] }, 'ok'],
    ['every IPv4 address', { TRUSTED_PROXIES: ['10.0.0.1', '0.0.0.0/0'] }, 'problem'],
    ['every IPv6 address', { TRUSTED_PROXIES: ['::/0'] }, 'problem'],
  ])('%s', (_, given, state) => {
    expect(checkProxies(addresses(given)).state).toBe(state);
  });
});
