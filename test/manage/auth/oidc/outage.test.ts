import { describe, expect, test, vi } from 'vitest';
import { discover, Provider } from '../../../../server/manage/auth/oidc/provider.ts';
import { fakeTimers } from '../../../helpers/clock.ts';
import { CALLBACK, type HostedApp, PUBLIC_URL, startHostedApp } from '../../../helpers/hosted.ts';
import { TestProvider } from '../../../helpers/oidc-provider.ts';
import { type Answer, request } from '../../../helpers/people.ts';
import { ofTest } from '../../../helpers/shared.ts';
import { until } from '../../../helpers/wait.ts';
import { problemShown } from '../../../helpers/web-client.ts';

const people = { olga: { email: 'olga@example.org', email_verified: true, weir_role: 'operator' } };

async function start(providerListens: boolean): Promise<HostedApp> {
  const hosted = await ofTest(startHostedApp({ people }, { providerListens }));
  return hosted;
}

function begin({ app }: HostedApp): Promise<Answer> {
  return request(`${app.url}/oidc/start`, 'GET', undefined, {});
}

function call({ app }: HostedApp, token: string): Promise<Answer> {
  return request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });
}

/** The response that names the provider as the cause. */
function expectUnavailable(answer: Answer): void {
  expect(problemShown(answer)).toEqual([503, 'identity_provider_unavailable']);
  expect(Number(answer.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
}

const events = ({ app }: HostedApp) =>
  app.logLines.map((line) => JSON.parse(line).event as string).filter((event) => event.startsWith('identity_provider'));

describe('while the provider is unavailable', () => {
  test('Weir starts, reports it, and recovers automatically', async () => {
    const hosted = await start(false);
    expect((await fetch(`${hosted.app.url}/readyz`)).status).toBe(200);
    expectUnavailable(await begin(hosted));
    expectUnavailable(await call(hosted, 'eyJhbGciOiJSUzI1NiJ9.e30.AA'));
    await hosted.provider.listen();
    await until(async () => (await begin(hosted)).status === 303);
    expect((await hosted.signIn('olga')).status).toBe(303);
    expect(events(hosted)).toEqual(['identity_provider_down', 'identity_provider_up']);
  });

  test('requests to it follow the back-off', async () => {
    const hosted = await start(false);
    // Stands still: a busy machine could take longer than the first back-off.
    fakeTimers({ toFake: ['Date'], now: Date.now() });
    expectUnavailable(await begin(hosted));
    await hosted.provider.listen();
    for (let i = 0; i < 10; i++) expectUnavailable(await begin(hosted));
    expect(hosted.provider.requests).toEqual([]);
    vi.setSystemTime(Date.now() + 1_000);
    expect((await begin(hosted)).status).toBe(303);
  });

  test('sessions stay valid, tokens verify by the cached keys, and sign-ins are deferred', async () => {
    const hosted = await start(true);
    const browser = hosted.browser();
    await hosted.signIn('olga', browser);
    const token = await hosted.provider.accessToken('olga');
    expect((await call(hosted, token)).status).toBe(200);

    const late = hosted.browser();
    const { location } = await late.open(`${PUBLIC_URL}/oidc/start`);
    const callback = await hosted.provider.logIn(late, location!, 'olga', CALLBACK);
    await hosted.provider.stop();

    expect((await browser.open(`${PUBLIC_URL}/api/v1/account`)).status).toBe(200);
    expect((await call(hosted, token)).status).toBe(200);
    const refused = await late.open(callback);
    expect(problemShown(refused)).toEqual([503, 'identity_provider_unavailable']);
    expect(refused.headers.get('retry-after')).toBe('1');

    await hosted.provider.listen();
    expect((await late.open(callback)).status).toBe(303);
  });

  test('a token with an unknown key is answered 503 instead of 401', async () => {
    const hosted = await start(true);
    expect((await hosted.signIn('olga')).status).toBe(303);
    hosted.provider.rotate();
    const token = await hosted.provider.accessToken('olga');
    await hosted.provider.stop();
    fakeTimers({ toFake: ['Date'], now: Date.now() + 20_000 });
    expectUnavailable(await call(hosted, token));
    await hosted.provider.listen();
    vi.setSystemTime(Date.now() + 60_000);
    expect((await call(hosted, token)).status).toBe(200);
  });

  test('keys are cached for ten minutes; after that the response is 503', async () => {
    const hosted = await start(true);
    const token = await hosted.provider.accessToken('olga');
    expect((await call(hosted, token)).status).toBe(200);
    const fetchedMs = Date.now();
    await hosted.provider.stop();
    fakeTimers({ toFake: ['Date'], now: fetchedMs + 590_000 });
    expect((await call(hosted, token)).status).toBe(200);
    vi.setSystemTime(fetchedMs + 605_000);
    expectUnavailable(await call(hosted, token));
  });

  test('a sign-out ends the session in Weir', async () => {
    const hosted = await start(true);
    const browser = hosted.browser();
    await hosted.signIn('olga', browser);
    await hosted.provider.stop();
    const cookie = `weir_session=${browser.cookie('weir_session')!.value}`;
    const account = () => request(`${hosted.app.url}/api/v1/account`, 'GET', undefined, { cookie });
    const headers = { cookie, origin: PUBLIC_URL, 'x-csrf-token': (await account()).body.csrf_token };
    const { status } = await request(`${hosted.app.url}/api/v1/session`, 'DELETE', undefined, headers);
    expect([status, (await account()).status]).toEqual([200, 401]);
  });
});

test('a client address can start 60 renewals a minute, and no more', async () => {
  const hosted = await start(true);
  const back = () => request(`${hosted.app.url}/oidc/callback`, 'GET', undefined, {});
  const statuses: number[] = [];
  for (let i = 0; i < 60; i++) statuses.push((await back()).status);
  expect(statuses).toEqual(Array(60).fill(400));
  const last = await back();
  expect(problemShown(last)).toEqual([429, 'rate_limited']);
  expect(Number(last.headers.get('retry-after'))).toBeGreaterThanOrEqual(1);
});

test('requests to the provider are limited to 5 seconds, or to the given time', async () => {
  const provider = await ofTest(TestProvider.start({ redirectUris: [CALLBACK], people: {} }));
  const { issuer, clientId, clientSecret } = provider;
  const parts = { issuer, clientId, clientSecret };
  expect((await discover(parts)).timeout).toBe(5);
  const patient = new Provider({ ...parts, requestTimeoutSeconds: 60, onChange: () => {} });
  expect((await patient.find()).config.timeout).toBe(60);
});
