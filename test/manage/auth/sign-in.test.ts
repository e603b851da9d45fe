import { randomBytes } from 'node:crypto';
import { hash as argon2 } from '@node-rs/argon2';
import { beforeAll, describe, expect, test } from 'vitest';
import { isOutdated } from '../../../server/manage/auth/password-hash.ts';
import { USER_SESSION_IDLE_SECONDS } from '../../../server/manage/auth/people.ts';
import { deleteEndedSessions } from '../../../server/store/queries/users/sessions.ts';
import { deleteOldFailures } from '../../../server/store/queries/users/sign-in-failures.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, cookieOf, givePassword, PASSWORD, request, signIn, type TestPerson } from '../../helpers/people.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(() => startTestApp({ TRUSTED_PROXIES: '127.0.0.1' }));
const ada = shared(() => addPerson(app, 'operator'));
beforeAll(async () => {
  await givePassword(app, ada);
});

const account = (cookie: string) => request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie });
let addresses = 0;
/** A client address without failures. */
const elsewhere = () => ({ 'x-forwarded-for': `203.0.113.${++addresses}` });

describe('a sign-in with the correct password', () => {
  test('returns the user and a HttpOnly, SameSite cookie', async () => {
    const { status, headers, body } = await signIn(app, ada.email);
    expect(status).toBe(200);
    expect(headers.getSetCookie()[0]).toMatch(
      /^weir_session=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax$/,
    );
    expect(headers.get('cache-control')).toBe('no-store');
    const user = { id: ada.id, email: ada.email, name: 'A operator', role: 'operator' };
    expect(body).toEqual({ user, csrf_token: expect.stringMatching(/^[\w-]{43}$/) });
  });

  test('opens an active session with its CSRF token', async () => {
    const answer = await signIn(app, ada.email);
    const { status, body } = await account(cookieOf(answer));
    expect([status, body.csrf_token]).toEqual([200, answer.body.csrf_token]);
  });

  test.each([
    ['in upper case', () => ada.email.toUpperCase(), PASSWORD],
    ['with space around it', () => ` ${ada.email} `, PASSWORD],
    ['and the password in another form of Unicode', () => ada.email, PASSWORD.replace('horse', 'ｈｏｒｓｅ')],
  ])('accepts the email %s', async (_what, email, password) => {
    expect((await signIn(app, email(), password)).status).toBe(200);
  });

  test('stores only a hash of the cookie, and the client', async () => {
    const agent = { 'user-agent': 'Lynx/2.9 ünïcode', ...elsewhere() };
    const token = cookieOf(await signIn(app, ada.email, PASSWORD, agent)).split('=')[1]!;
    const rows = await app.sql(
      `select host(source_ip) as source_ip, user_agent, sessions::text like '%' || $2 || '%' as contained from sessions
             where token_hash = sha256(convert_to($1, 'UTF8'))`,
      token,
      token,
    );
    const user_agent = expect.stringMatching(/^Lynx\/2\.9 [ -~]+$/);
    expect(rows).toEqual([{ source_ip: agent['x-forwarded-for'], user_agent, contained: false }]);
  });

  test('is recorded with user, address and request id', async () => {
    const { headers } = await signIn(app, ada.email, PASSWORD, elsewhere());
    const requestId = headers.get('x-request-id');
    const [entry] = await entries(requestId!);
    expect(entry).toMatchObject({ action: 'session.sign_in', target: { kind: 'user', id: ada.id, name: ada.email } });
    expect(entry!.actor).toEqual({
      kind: 'user',
      id: ada.id,
      name: ada.email,
      token_id: null,
      address: `203.0.113.${addresses}`,
      request_id: requestId,
    });
  });
});

interface Entry {
  action: string;
  actor: Record<string, unknown>;
}
async function entries(requestId: string): Promise<Entry[]> {
  const rows = await app.sql<{ entry: Entry }>(
    `select entry from audit_log where entry -> 'actor' ->> 'request_id' = $1`,
    requestId,
  );
  return rows.map(({ entry }) => entry);
}

describe('a failed sign-in', () => {
  const people: Record<string, TestPerson> = {};
  beforeAll(async () => {
    for (const name of ['disabled', 'without', 'other']) people[name] = await addPerson(app, 'viewer');
    await givePassword(app, people.disabled!);
    await givePassword(app, people.other!, `${PASSWORD} of another`);
    await app.sql('update users set disabled_at = now() where id = $1', people.disabled!.id);
  });

  const ways: [string, () => string, string][] = [
    ['with another password', () => ada.email, 'incorrect horse battery'],
    ['with the password of another user', () => ada.email, `${PASSWORD} of another`],
    ['with an empty password', () => ada.email, ''],
    ['with the password in another case', () => ada.email, PASSWORD.toUpperCase()],
    ['of an unknown email', () => 'nobody@example.org', PASSWORD],
    ['of a disabled user', () => people.disabled!.email, PASSWORD],
    ['of a user without a password', () => people.without!.email, ''],
  ];
  test.each(ways)('%s is answered like every other, after the same work', async (_what, email, password) => {
    await app.sql('delete from sign_in_tallies');
    const before = await app.metric('weir_password_hashes_total');
    const { status, headers, body } = await signIn(app, email(), password, elsewhere());
    expect([status, headers.get('set-cookie')]).toEqual([401, null]);
    const { request_id, ...rest } = body;
    expect(rest).toEqual({
      type: 'about:blank',
      title: 'Unauthorized',
      status: 401,
      detail: 'The email or the password is wrong, or the account is not active.',
      code: 'sign_in_failed',
    });
    expect((await app.metric('weir_password_hashes_total')) - before).toBe(1);
    const [entry, ...more] = await entries(request_id);
    expect([entry!.action, entry!.actor.kind, more]).toEqual(['session.sign_in_failed', 'anyone', []]);
    expect(JSON.stringify(entry)).not.toContain(password || 'password');
  });

  test.each([
    ['an invalid email', { email: 'ada', password: PASSWORD }, '/email'],
    ['an email with a line end', { email: 'ada@example.org\nx', password: PASSWORD }, '/email'],
    ['no password', { email: 'ada@example.org' }, '/password'],
    ['a password that is not text', { email: 'ada@example.org', password: { $ne: '' } }, '/password'],
    ['an endless password', { email: 'ada@example.org', password: 'x'.repeat(1001) }, '/password'],
  ])('with %s names the invalid field', async (_what, body, pointer) => {
    const answer = await request(`${app.url}/api/v1/session`, 'POST', body, {});
    expect([answer.status, answer.body.errors.map((error: { pointer: string }) => error.pointer)]).toEqual([
      422,
      [pointer],
    ]);
  });
});

describe('a session', () => {
  test('that was presented ends at the sign-in, which prevents session fixation', async () => {
    const planted = cookieOf(await signIn(app, ada.email));
    const own = cookieOf(await signIn(app, ada.email, PASSWORD, { cookie: planted }));
    expect(own).not.toBe(planted);
    expect([(await account(planted)).status, (await account(own)).status]).toEqual([401, 200]);
  });

  test('has an id chosen by the server, for any given cookie', async () => {
    const chosen = `weir_session=${randomBytes(32).toString('base64url')}`;
    const own = cookieOf(await signIn(app, ada.email, PASSWORD, { cookie: chosen }));
    expect(own).not.toBe(chosen);
    expect((await account(chosen)).status).toBe(401);
  });

  test.each([
    ['seven days after the sign-in', 'expires_at = now()'],
    ['a day after its last request', "last_seen_at = now() - interval '24 hours'"],
  ])('ends %s', async (_when, change) => {
    const cookie = cookieOf(await signIn(app, ada.email));
    const { id } = (await request(`${app.url}/api/v1/account/sessions`, 'GET', undefined, { cookie })).body.items.find(
      ({ current }: { current: boolean }) => current,
    );
    await app.sql(`update sessions set ${change} where id = $1`, id);
    expect((await account(cookie)).status).toBe(401);
  });
});

test('a hash with older parameters is replaced at the sign-in', async () => {
  const person = await addPerson(app, 'viewer');
  const stored = async () => {
    const text = 'select password_hash as hash from users where id = $1';
    const [row] = await app.sql<{ hash: string }>(text, person.id);
    return row!.hash;
  };
  const older = await argon2(PASSWORD, { memoryCost: 7_168, timeCost: 5 });
  await app.sql('update users set password_hash = $2 where id = $1', person.id, older);
  expect((await signIn(app, person.email, 'not the password')).status).toBe(401);
  expect(await stored()).toBe(older);
  expect((await signIn(app, person.email)).status).toBe(200);
  expect(isOutdated(await stored())).toBe(false);
  expect((await signIn(app, person.email)).status).toBe(200);
});

test('maintenance deletes expired sessions and old failures, and nothing else', async () => {
  const { database } = app;
  await app.sql('delete from sessions; delete from sign_in_failures');
  const cookies = [];
  for (let i = 0; i < 3; i++) cookies.push(cookieOf(await signIn(app, ada.email)));
  const change = (cookie: string, to: string) =>
    app.sql(`update sessions set ${to} where token_hash = sha256(convert_to($1, 'UTF8'))`, cookie.split('=')[1]);
  await change(cookies[0]!, 'expires_at = now()');
  await change(cookies[1]!, "last_seen_at = now() - interval '24 hours'");
  await app.sql(
    `insert into sign_in_failures values ('ip:a', 1, now() - interval '25 hours'), ('ip:b', 1, now() - interval '23 hours')`,
  );
  expect([await deleteEndedSessions(database, USER_SESSION_IDLE_SECONDS), await deleteOldFailures(database)]).toEqual([
    2, 1,
  ]);
  expect((await account(cookies[2]!)).status).toBe(200);
  expect(await app.sql('select key from sign_in_failures')).toEqual([{ key: 'ip:b' }]);
});

test('the session cookie of an https origin has the prefix __Host- and is Secure', async () => {
  const secure = await ofTest(startTestApp({ PUBLIC_URL: 'https://weir.example' }, app));
  const answer = await signIn(secure, ada.email);
  expect(answer.headers.getSetCookie()[0]).toMatch(
    /^__Host-weir_session=[\w-]{43}; Path=\/; Max-Age=604800; HttpOnly; SameSite=Lax; Secure$/,
  );
  const url = `${secure.url}/api/v1/account`;
  expect((await request(url, 'GET', undefined, { cookie: cookieOf(answer) })).status).toBe(200);
});
