import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { describe, expect, onTestFinished, test } from 'vitest';
import { checkIdentityProvider } from '../../../server/operate/doctor/origins.ts';
import { TestProvider } from '../../helpers/oidc-provider.ts';
import { freePort } from '../../helpers/ports.ts';
import { settingsOf } from '../../helpers/settings.ts';

const look = (issuer: string) =>
  checkIdentityProvider(
    settingsOf({
      AUTH_MODE: 'hosted',
      OIDC_ISSUER: issuer,
      OIDC_CLIENT_ID: 'weir',
      OIDC_CLIENT_SECRET: 'geheim',
      PUBLIC_URL: 'https://weir.example',
    }),
  );

describe('the doctor checks the identity provider', () => {
  test('is skipped in local mode', async () => {
    expect((await checkIdentityProvider(settingsOf({}))).state).toBe('ok');
  });

  test('that responds: the redirect URI is shown', async () => {
    const provider = await TestProvider.start({ redirectUris: ['https://weir.example/oidc/callback'], people: {} });
    onTestFinished(() => provider.stop());
    expect(await look(provider.issuer)).toEqual({
      name: 'identity_provider',
      state: 'ok',
      finding: `${provider.issuer} answers; the redirect URI to register there is https://weir.example/oidc/callback`,
      fix: null,
    });
  });

  test('that is unavailable', async () => {
    const check = await look(`http://127.0.0.1:${await freePort()}`);
    expect([check.state, check.finding]).toEqual(['problem', expect.stringContaining('ECONNREFUSED')]);
    expect(check.fix).toContain('/.well-known/openid-configuration');
    expect(JSON.stringify(check)).not.toContain('geheim');
  });

  test('whose issuer differs from the settings', async () => {
    const provider = await TestProvider.start({ redirectUris: ['https://weir.example/oidc/callback'], people: {} });
    onTestFinished(() => provider.stop());
    const check = await look(provider.issuer.replace('127.0.0.1', 'localhost'));
    expect([check.state, check.finding]).toEqual([
      'problem',
      expect.stringContaining('discovered metadata issuer does not match the expected issuer'),
    ]);
  });

  test('that is not a provider', async () => {
    const server = createServer((_, response) => response.end('<h1>hello</h1>')).listen(0, '127.0.0.1');
    onTestFinished(() => void server.close());
    await new Promise((resolve) => server.once('listening', resolve));
    const check = await look(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
    expect(check.state).toBe('problem');
  });
});
