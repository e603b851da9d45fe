import { describe, expect, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import {
  addPerson,
  addToken,
  cookieOf,
  csrfToken,
  givePassword,
  PASSWORD,
  request,
  signIn,
  type TestPerson,
} from '../../../helpers/people.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';

const NEW = 'a new horse, a new battery';
const app = shared(() => startTestApp({ TRUSTED_PROXIES: '127.0.0.1', CORS_ORIGINS: 'https://console.example' }));

async function newPerson(): Promise<TestPerson> {
  const person = await addPerson(app, 'viewer');
  await givePassword(app, person);
  return person;
}

/** A signed-in browser. */
async function browser(person: TestPerson) {
  const cookie = cookieOf(await signIn(app, person.email));
  const token = await csrfToken(app.url, cookie);
  return {
    cookie,
    get: (path: string) => request(app.url + path, 'GET', undefined, { cookie }),
    change: (method: string, path: string, body?: unknown, headers: Record<string, string> = {}) =>
      request(app.url + path, method, body, {
        cookie,
        'x-csrf-token': token,
        origin: app.settings.PUBLIC_URL,
        ...headers,
      }),
  };
}
type Browser = Awaited<ReturnType<typeof browser>>;
const status = async (one: Browser) => (await one.get('/api/v1/account')).status;

async function actions(person: TestPerson): Promise<string[]> {
  const rows = await app.sql<{ action: string }>(
    `select action from audit_log where actor_id = $1 and action <> 'session.sign_in' order by number`,
    person.id,
  );
  return rows.map(({ action }) => action);
}

describe('signing out', () => {
  test('ends this session only and deletes the cookie', async () => {
    const person = await newPerson();
    const [one, another] = [await browser(person), await browser(person)];
    const answer = await one.change('DELETE', '/api/v1/session');
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([
      204,
      'weir_session=; Path=/; Max-Age=0; HttpOnly; SameSite=Lax',
    ]);
    expect([await status(one), await status(another)]).toEqual([401, 200]);
    expect(await actions(person)).toEqual(['session.sign_out']);
  });

  test('everywhere ends all sessions of the user, and none of other users', async () => {
    const [person, neighbour] = [await newPerson(), await newPerson()];
    const [one, another, theirs] = [await browser(person), await browser(person), await browser(neighbour)];
    const answer = await one.change('DELETE', '/api/v1/account/sessions');
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([204, expect.stringContaining('Max-Age=0')]);
    expect([await status(one), await status(another), await status(theirs)]).toEqual([401, 401, 200]);
    expect(await actions(person)).toEqual(['session.sign_out_everywhere']);
  });

  test('of another browser ends that session, records which one, and keeps the cookie of this browser', async () => {
    const person = await newPerson();
    const [one, another, third] = [await browser(person), await browser(person), await browser(person)];
    const { body } = await another.get('/api/v1/account/sessions');
    const { id } = body.items.find(({ current }: { current: boolean }) => current);
    const answer = await one.change('DELETE', `/api/v1/account/sessions/${id}`);
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([204, null]);
    expect([await status(one), await status(another), await status(third)]).toEqual([200, 401, 200]);
    const [entry] = await app.sql<{ entry: object }>(`select entry from audit_log where target_id = $1`, id);
    expect(entry!.entry).toMatchObject({
      action: 'session.end',
      actor: { id: person.id },
      before: { id, address: '127.0.0.1', user_agent: 'node' },
    });
    const again = await one.change('DELETE', `/api/v1/account/sessions/${id}`);
    expect([again.status, again.body.code]).toEqual([404, 'session_unknown']);
  });

  test('of the current browser by session id deletes its cookie', async () => {
    const one = await browser(await newPerson());
    const [{ id }] = (await one.get('/api/v1/account/sessions')).body.items;
    const answer = await one.change('DELETE', `/api/v1/account/sessions/${id}`);
    expect([answer.status, answer.headers.get('set-cookie')]).toEqual([204, expect.stringContaining('Max-Age=0')]);
    expect(await status(one)).toBe(401);
  });
});

test('sessions are listed with time, address and the current one; ended sessions are not listed', async () => {
  const person = await newPerson();
  const ended = await browser(person);
  await ended.change('DELETE', '/api/v1/session');
  const [one] = [await browser(person), await browser(person)];
  const { body } = await one.get('/api/v1/account/sessions');
  expect(body.items).toHaveLength(2);
  const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);
  expect(body.items.find(({ current }: { current: boolean }) => current)).toEqual({
    id: expect.stringMatching(/^[0-9a-f-]{36}$/),
    created_at: time,
    last_seen_at: time,
    expires_at: time,
    address: '127.0.0.1',
    user_agent: 'node',
    current: true,
  });
  expect(body.items.filter(({ current }: { current: boolean }) => current)).toHaveLength(1);
});

describe('changing the password', () => {
  test('activates the new password and ends all other sessions', async () => {
    const person = await newPerson();
    const [one, another] = [await browser(person), await browser(person)];
    const change = { current_password: PASSWORD, new_password: NEW };
    const changed = await one.change('POST', '/api/v1/account/password', change);
    expect([changed.status, changed.body]).toEqual([200, { revoked_tokens: 1 }]);
    expect((await person.api('GET', '/api/v1/account')).status).toBe(401);
    expect([await status(one), await status(another)]).toEqual([200, 401]);
    expect((await signIn(app, person.email, PASSWORD)).status).toBe(401);
    expect((await signIn(app, person.email, NEW)).status).toBe(200);
    expect(await actions(person)).toEqual(['account.password']);
    const [{ contained }] = (await app.sql(
      `select bool_or(entry::text ~ $1) as contained from audit_log`,
      `${PASSWORD}|${NEW}|argon2`,
    )) as [{ contained: boolean }];
    expect(contained).toBe(false);
  });

  test.each([
    ['another present password', { current_password: 'incorrect', new_password: NEW }, '/current_password'],
    ['a short new one', { current_password: PASSWORD, new_password: 'short' }, '/new_password'],
    ['no new one', { current_password: PASSWORD }, '/new_password'],
    ['a field more', { current_password: PASSWORD, new_password: NEW, role: 'administrator' }, '/role'],
  ])('with %s changes nothing', async (_what, body, pointer) => {
    const person = await newPerson();
    const one = await browser(person);
    const answer = await one.change('POST', '/api/v1/account/password', body);
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
    expect((await signIn(app, person.email)).status).toBe(200);
  });

  test('to the email address of the user is refused', async () => {
    const person = await newPerson();
    const body = { current_password: PASSWORD, new_password: person.email };
    const answer = await (await browser(person)).change('POST', '/api/v1/account/password', body);
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, '/new_password']);
  });

  test('keeps the API tokens with revoke_tokens false', async () => {
    const person = await newPerson();
    const change = { current_password: PASSWORD, new_password: NEW, revoke_tokens: false };
    const { body } = await (await browser(person)).change('POST', '/api/v1/account/password', change);
    expect(body).toEqual({ revoked_tokens: 0 });
    expect((await person.api('GET', '/api/v1/account')).status).toBe(200);
  });

  test('revokes the API tokens, returns their number, and records them', async () => {
    const [person, neighbour] = [await newPerson(), await newPerson()];
    const second = await addToken(app, person, 'viewer');
    const change = { current_password: PASSWORD, new_password: NEW };
    const { status, body } = await (await browser(person)).change('POST', '/api/v1/account/password', change);
    expect([status, body]).toEqual([200, { revoked_tokens: 2 }]);
    for (const token of [person.token, second.token]) {
      const account = await request(`${app.url}/api/v1/account`, 'GET', undefined, {
        authorization: `Bearer ${token}`,
      });
      expect(account.status).toBe(401);
    }
    expect((await neighbour.api('GET', '/api/v1/account')).status).toBe(200);
    const [entry] = await app.sql<{ after: { revoked_tokens: string[] } }>(
      `select entry -> 'after' as after from audit_log where action = 'account.password' and actor_id = $1`,
      person.id,
    );
    expect(entry!.after.revoked_tokens).toContain(second.id);
  });
});

test('passwords are not available in hosted mode', async () => {
  const OIDC = {
    OIDC_ISSUER: 'http://127.0.0.1:1',
    OIDC_CLIENT_ID: 'weir',
    OIDC_CLIENT_SECRET: 'a secret of the client',
  };
  const hosted = await ofTest(startTestApp({ AUTH_MODE: 'hosted', ...OIDC }, app));
  const person = await newPerson();
  const administrator = await addPerson(hosted, 'administrator');
  const at = (method: string, path: string, body: object) =>
    request(hosted.url + path, method, body, { authorization: `Bearer ${administrator.token}` });
  const setup = { token: 'x', email: 'ada@example.org', password: PASSWORD };
  for (const answer of [
    await signIn(hosted, person.email),
    await at('POST', '/api/v1/setup', setup),
    await administrator.browse('POST', '/api/v1/account/password', { current_password: PASSWORD, new_password: NEW }),
    await at('POST', '/api/v1/users', { email: 'new@example.org', role: 'viewer', password: PASSWORD }),
    await at('PATCH', `/api/v1/users/${person.id}`, { password: NEW }),
  ])
    expect([answer.status, answer.body.code]).toEqual([404, 'local_mode_only']);
  const made = await at('POST', '/api/v1/users', { email: 'new@example.org', role: 'viewer' });
  expect([made.status, made.body.has_password, made.body.generated_password]).toEqual([201, false, null]);
});
