/** Hosted mode: changes of users and privileged tokens are possible only soon after a sign-in at the provider. */
import { beforeEach, expect, test } from 'vitest';
import { REAUTHENTICATION_SECONDS } from '../../../../server/manage/auth/step-up.ts';
import { CALLBACK, PUBLIC_URL, startHostedApp } from '../../../helpers/hosted.ts';
import { addPerson, request } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import type { WebClient } from '../../../helpers/web-client.ts';

const hosted = shared(() =>
  startHostedApp({ people: { ada: { email: 'ada@example.org', weir_role: 'administrator' } } }),
);
let browser: WebClient;
beforeEach(async () => {
  browser = hosted.browser();
  await hosted.signIn('ada', browser);
});

async function change(method: string, path: string, body: object) {
  const cookie = `weir_session=${browser.cookie('weir_session')!.value}`;
  const url = hosted.app.url;
  const { body: account } = await request(`${url}/api/v1/account`, 'GET', undefined, { cookie });
  return request(url + path, method, body, { cookie, origin: PUBLIC_URL, 'x-csrf-token': account.csrf_token });
}
const rename = async () =>
  change('PATCH', `/api/v1/users/${(await addPerson(hosted.app, 'viewer')).id}`, { name: 'x' });

/** Moves the sign-ins back in time. */
const pass = (seconds: number) =>
  hosted.app.sql('update sessions set authenticated_at = authenticated_at - make_interval(secs => $1)', seconds);

/** Through the provider and back, in a browser with a session there. */
async function visitProvider(query: string): Promise<URL> {
  const start = await browser.open(`${PUBLIC_URL}/oidc/start${query}`);
  await browser.open(await hosted.provider.logIn(browser, start.location!, 'ada', CALLBACK));
  return new URL(start.location!);
}

test('a session can confirm changes shortly after the sign-in, not later', async () => {
  await pass(REAUTHENTICATION_SECONDS - 60);
  expect((await rename()).status).toBe(200);
  await pass(120);
  for (const refused of [
    await rename(),
    await change('POST', '/api/v1/tokens', { name: 'a', role: 'viewer', expires_in_days: 1 }),
    await change('POST', '/api/v1/agents', { name: 'a' }),
  ]) {
    expect([refused.status, refused.body.code]).toEqual([403, 'reauthentication_required']);
    expect(refused.body.detail).toContain('/oidc/start?fresh=true');
  }
});

test('a fresh sign-in at the provider is sufficient, and the session continues', async () => {
  const session = browser.cookie('weir_session')!.value;
  await pass(REAUTHENTICATION_SECONDS + 60);
  const { searchParams } = await visitProvider('?fresh=true&return_to=/users');
  expect(Number(searchParams.get('max_age'))).toBeLessThan(REAUTHENTICATION_SECONDS);
  expect((await rename()).status).toBe(200);
  expect(browser.cookie('weir_session')!.value).toBe(session);
});

test('a renewal without a prompt by the provider is not sufficient', async () => {
  await pass(REAUTHENTICATION_SECONDS + 60);
  expect((await visitProvider('')).searchParams.has('max_age')).toBe(false);
  expect((await rename()).body.code).toBe('reauthentication_required');
});

test('a JWT of an administrator changes users, and creates no privileged token and none that outlives it', async () => {
  const authorization = `Bearer ${await hosted.provider.accessToken('ada')}`;
  const ask = (method: string, path: string, body: object) =>
    request(hosted.app.url + path, method, body, { authorization });
  const { id } = await addPerson(hosted.app, 'viewer');
  expect((await ask('PATCH', `/api/v1/users/${id}`, { name: 'x' })).status).toBe(200);
  expect((await ask('POST', '/api/v1/tokens', { name: 'a' })).body.code).toBe('session_required');
  const lasting = await ask('POST', '/api/v1/tokens', { name: 'a', role: 'viewer', expires_in_days: 1 });
  expect([lasting.status, lasting.body.errors[0].pointer]).toEqual([422, '/expires_in_days']);
  const { exp } = JSON.parse(Buffer.from(authorization.split('.')[1]!, 'base64url').toString());
  const { body } = await ask('POST', '/api/v1/tokens', { name: 'a', role: 'viewer' });
  expect(body.expires_at).toBe(new Date(exp * 1000).toISOString());
});
