/** The doctor checks addresses, proxies, the identity provider and ports. */
import { createServer } from 'node:http';
import { describe, expect, onTestFinished, test } from 'vitest';
import { runChecks } from '../../../server/model/check.ts';
import { type Addresses, originChecks, portChecks, providerChecks } from '../../../server/operate/doctor/network.ts';
import { primaryFamilies } from '../../../server/operate/primary/families.ts';
import { MetricsPage } from '../../../server/operate/primary/metrics-page.ts';
import { TestProvider } from '../../helpers/oidc-provider.ts';
import { freePort, listening } from '../../helpers/ports.ts';
import { settingsOf } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';

const addresses = (given: Partial<Addresses>): Addresses => ({
  HOST: '127.0.0.1',
  PUBLIC_URL: 'https://weir.example',
  FRONTEND_PUBLIC_API_URL: given.PUBLIC_URL ?? 'https://weir.example',
  CORS_ORIGINS: [],
  TRUSTED_PROXIES: [],
  ...given,
});

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
  ['public, but listed as local', { HOST: '0.0.0.0', PUBLIC_URL: 'http://127.0.0.1:8080' }, 'advice', 'set PUBLIC_URL'],
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
])('the doctor compares origins: %s', (_, given, state, fix) => {
  const [check, ...more] = originChecks.origins({ settings: addresses(given) });
  expect(more).toEqual([]);
  expect(check!.state).toBe(state);
  if (fix === null) expect(check!.fix).toBeNull();
  else expect(check!.fix).toContain(fix);
});

test.each<[string, Partial<Addresses>, string]>([
  ['none, no TLS', { PUBLIC_URL: 'http://weir.example' }, 'ok'],
  ['none, though https says that one is there', {}, 'advice'],
  ['one', { TRUSTED_PROXIES: ['10.0.0.1'] }, 'ok'],
  ['every IPv4 address', { TRUSTED_PROXIES: ['10.0.0.1', '0.0.0.0/0'] }, 'problem'],
  ['every IPv6 address', { TRUSTED_PROXIES: ['::/0'] }, 'problem'],
])('the doctor checks the trusted proxies: %s', (_, given, state) => {
  expect(originChecks.proxies({ settings: addresses(given) }).state).toBe(state);
});

const lookAt = (issuer: string) =>
  providerChecks.identity_provider({
    settings: settingsOf({
      AUTH_MODE: 'hosted',
      OIDC_ISSUER: issuer,
      OIDC_CLIENT_ID: 'weir',
      OIDC_CLIENT_SECRET: 'geheim',
      PUBLIC_URL: 'https://weir.example',
    }),
  });

describe('the doctor checks the identity provider', () => {
  test('is skipped in local mode', async () => {
    expect((await providerChecks.identity_provider({ settings: settingsOf({}) })).state).toBe('ok');
  });

  test('that responds: the redirect URI is shown', async () => {
    const provider = await ofTest(
      TestProvider.start({ redirectUris: ['https://weir.example/oidc/callback'], people: {} }),
    );
    expect(await lookAt(provider.issuer)).toEqual({
      state: 'ok',
      finding: `${provider.issuer} answers; the redirect URI to register there is https://weir.example/oidc/callback`,
      fix: null,
    });
  });

  test('that is unavailable', async () => {
    const check = await lookAt(`http://127.0.0.1:${await freePort()}`);
    expect([check.state, check.finding]).toEqual(['problem', expect.stringContaining('ECONNREFUSED')]);
    expect(check.fix).toContain('/.well-known/openid-configuration');
    expect(JSON.stringify(check)).not.toContain('geheim');
  });

  test('whose issuer differs from the settings', async () => {
    const provider = await ofTest(
      TestProvider.start({ redirectUris: ['https://weir.example/oidc/callback'], people: {} }),
    );
    const check = await lookAt(provider.issuer.replace('127.0.0.1', 'localhost'));
    expect([check.state, check.finding]).toEqual([
      'problem',
      expect.stringContaining('discovered metadata issuer does not match the expected issuer'),
    ]);
  });

  test('that is not a provider', async () => {
    const port = await listening(createServer((_, response) => response.end('<h1>hello</h1>')));
    const check = await lookAt(`http://127.0.0.1:${port}`);
    expect(check.state).toBe('problem');
  });
});

describe('the doctor checks the ports', () => {
  test('that are free', async () => {
    const settings = settingsOf({ PORT: String(await freePort()), METRICS_PORT: String(await freePort()) });
    const checks = await runChecks(portChecks, { settings });
    expect(checks.map(({ name, state }) => `${name} ${state}`)).toEqual(['port ok', 'metrics_port ok']);
  });

  test('that another program uses', async () => {
    const port = await strangerPort();
    const settings = settingsOf({ PORT: String(port), METRICS_PORT: String(await freePort()) });
    const checks = await runChecks(portChecks, { settings });
    expect(checks).toHaveLength(2);
    expect(checks[0]).toEqual({
      name: 'port',
      state: 'problem',
      finding: `PORT ${port} on 127.0.0.1 is in use by another program`,
      fix: 'stop it or set PORT',
    });
  });

  test('METRICS_PORT of a Weir whose processes do not serve yet', async () => {
    const page = new MetricsPage({
      collect: async () => [],
      readFigures: async () => null,
      ownFamilies: async () => primaryFamilies({ horizon: { fromMs: 0, toMs: 0 }, maintainedMs: 0 }, [], 0),
      onFailure: (error) => expect.fail(error.message),
    });
    const port = await freePort();
    await page.listen('127.0.0.1', port);
    onTestFinished(() => page.close());
    const settings = settingsOf({ PORT: String(await freePort()), METRICS_PORT: String(port) });
    const checks = await runChecks(portChecks, { settings });
    expect(checks[1]).toMatchObject({ state: 'ok', finding: `${port} on 127.0.0.1 is used by Weir itself` });
  });

  test('at an address that this machine does not have', async () => {
    const ports = { PORT: String(await freePort()), METRICS_PORT: String(await freePort()) };
    const [check] = await runChecks(portChecks, { settings: settingsOf({ HOST: '192.0.2.1', ...ports }) });
    expect(check).toMatchObject({ state: 'problem', fix: 'set HOST to an address of this machine' });
  });
});

/** A web server that answers everything with 200. */
const strangerPort = () => listening(createServer((_, answer) => answer.end('hello')));
