/** Users whose role the provider removed, or has not confirmed for long. */
import { describe, expect, test } from 'vitest';
import { weirJson } from '../../../helpers/command.ts';
import { PUBLIC_URL, startHostedApp } from '../../../helpers/hosted.ts';
import { type Answer, request } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';
import { openStream } from '../../../helpers/stream.ts';
import { until } from '../../../helpers/wait.ts';
import { problemShown, type WebClient } from '../../../helpers/web-client.ts';

const hosted = shared(() => startHostedApp({}));

interface Member {
  login: string;
  email: string;
  browser: WebClient;
  /** CSRF token of the session. */
  cookie: string;
  token: string;
}

let members = 0;

/** A user with this role at the provider, signed in, with an API token. */
async function member(role: string): Promise<Member> {
  const login = `member-${members++}`;
  const email = `${login}@example.org`;
  hosted.provider.people[login] = { email, email_verified: true, weir_role: role };
  const browser = hosted.browser();
  expect((await hosted.signIn(login, browser)).status).toBe(303);
  const { token } = await weirJson(hosted.app, 'token', 'add', '--email', email, '--name', 'ci');
  return { login, email, browser, cookie: `weir_session=${browser.cookie('weir_session')!.value}`, token };
}

function takeRole({ login }: Member): void {
  delete hosted.provider.people[login]!.weir_role;
}

const account = (headers: Record<string, string>): Promise<Answer> =>
  request(`${hosted.app.url}/api/v1/account`, 'GET', undefined, headers);
const bySession = ({ cookie }: Member) => account({ cookie });
const byToken = ({ token }: Member) => account({ authorization: `Bearer ${token}` });

/** The user as the command line lists it. */
async function listed({ email }: Member) {
  const { items } = await weirJson(hosted.app, 'user', 'list');
  return items.find((user: { email: string }) => user.email === email);
}

async function tokenState({ email }: Member): Promise<string> {
  const { items } = await weirJson(hosted.app, 'token', 'list', '--email', email);
  return items[0].state;
}

describe('a sign-in without a role from the provider', () => {
  test('ends the sessions, streams and tokens of that user at once, in every browser', async () => {
    const kim = await member('operator');
    const bystander = await member('operator');
    const stream = await openStream(`${hosted.app.url}/api/v1/stream`, { cookie: kim.cookie });
    const tokenStream = await openStream(`${hosted.app.url}/api/v1/stream`, { authorization: `Bearer ${kim.token}` });
    expect([stream.status, tokenStream.status]).toEqual([200, 200]);

    takeRole(kim);
    expect(problemShown(await hosted.signIn(kim.login))).toEqual([403, 'role_missing']);
    expect([(await bySession(kim)).status, (await byToken(kim)).body.code]).toEqual([401, 'token_suspended']);
    await until(() => stream.ended && tokenStream.ended);
    expect(await listed(kim)).toMatchObject({ role: 'viewer', disabled: false });
    expect(await tokenState(kim)).toBe('suspended');
    expect([(await bySession(bystander)).status, (await byToken(bystander)).status]).toEqual([200, 200]);
  });

  test('is recorded once, with what it ended', async () => {
    const kim = await member('operator');
    takeRole(kim);
    for (let i = 0; i < 3; i++) await hosted.signIn(kim.login);
    const { id } = await listed(kim);
    const { items } = await weirJson(hosted.app, 'audit', 'list', '--target', id);
    expect(items.filter(({ action }: { action: string }) => action === 'user.role_ended')).toMatchObject([
      {
        actor: { kind: 'user', id },
        target: { kind: 'user', id, name: kim.email },
        before: { role: 'operator', sessions: 1 },
        after: { role: null },
      },
    ]);
  });

  test('is reverted by a sign-in with a role: the token is valid again', async () => {
    const kim = await member('operator');
    takeRole(kim);
    await hosted.signIn(kim.login);
    hosted.provider.people[kim.login]!.weir_role = 'operator';
    expect((await hosted.signIn(kim.login)).status).toBe(303);
    expect((await bySession(kim)).status).toBe(401);
    expect((await byToken(kim)).body).toMatchObject({ email: kim.email, role: 'operator' });
    expect(await tokenState(kim)).toBe('active');
  });

  test('creates no user, and affects only users of the provider', async () => {
    const local = 'local@example.org';
    await weirJson(hosted.app, 'user', 'add', '--email', local, '--role', 'operator');
    hosted.provider.people.stranger = { email: local, email_verified: true };
    expect(problemShown(await hosted.signIn('stranger'))).toEqual([403, 'role_missing']);
    const { items } = await weirJson(hosted.app, 'user', 'list');
    expect(items.filter(({ email }: { email: string }) => email === local)).toMatchObject([
      { role: 'operator', hosted: false, role_until: null },
    ]);
  });

  test('of the last administrator is logged', async () => {
    const kim = await member('administrator');
    takeRole(kim);
    await hosted.signIn(kim.login);
    const reported = hosted.app.logLines.map((line) => JSON.parse(line));
    expect(reported.filter(({ event }) => event === 'administrator_missing')).toMatchObject([{ email: kim.email }]);
  });
});

describe('a user who is not confirmed by the provider', () => {
  const daysAgo = (kim: Member, days: number) =>
    hosted.app.sql(
      'update users set role_until = role_until - make_interval(days => $2) where email = $1',
      kim.email,
      days,
    );

  test('for 30 days: the tokens are suspended until the next sign-in', async () => {
    const kim = await member('operator');
    await daysAgo(kim, 29);
    expect((await byToken(kim)).status).toBe(200);
    await daysAgo(kim, 1);
    expect((await byToken(kim)).body).toMatchObject({ status: 403, code: 'token_suspended' });
    expect(await tokenState(kim)).toBe('suspended');
    expect((await listed(kim)).role).toBe('operator');

    await hosted.signIn(kim.login, kim.browser);
    expect((await byToken(kim)).status).toBe(200);
    expect(Date.parse((await listed(kim)).role_until)).toBeGreaterThan(Date.now() + 29 * 86_400_000);
  });
});

describe('a page in the second half of a session', () => {
  const PAGE = `${PUBLIC_URL}/events?q=%C3%A4`;
  const CALLBACK = `${PUBLIC_URL}/oidc/callback`;
  const left = (kim: Member, minutes: number) =>
    hosted.app.sql(
      `update sessions set expires_at = now() + make_interval(mins => $2)
             from users u where u.id = user_id and u.email = $1`,
      kim.email,
      minutes,
    );
  const ask = ({ cookie }: Member, headers: Record<string, string>) =>
    request(`${hosted.app.url}/account`, 'GET', undefined, { cookie, ...headers });

  test('is opened through the provider, and the session continues for another hour', async () => {
    const kim = await member('viewer');
    const csrf = (await bySession(kim)).body.csrf_token;
    await left(kim, 29);
    const away = await kim.browser.open(PAGE);
    expect(away.location).toMatch(new RegExp(`^${hosted.provider.issuer}/`));
    const callback = await kim.browser.follow(away, CALLBACK);
    const back = await kim.browser.open(callback.location!);
    expect(back.location).toBe(PAGE);
    expect(kim.browser.cookie('weir_session')!.field).toMatch(/; Max-Age=3600; /);
    expect((await kim.browser.open(PAGE)).status).toBe(200);
    // The token of forms that are open in other tabs.
    expect((await bySession(kim)).body.csrf_token).toBe(csrf);
    const { items } = await weirJson(hosted.app, 'audit', 'list', '--actor', (await listed(kim)).id);
    expect(items.map(({ action }: { action: string }) => action)).toEqual(['session.sign_in', 'user.create']);
  });

  test('applies a role that was removed', async () => {
    const kim = await member('operator');
    takeRole(kim);
    await left(kim, 29);
    const page = await kim.browser.follow(await kim.browser.open(PAGE));
    expect(problemShown(page)).toEqual([403, 'role_missing']);
    expect([(await bySession(kim)).status, (await byToken(kim)).body.code]).toEqual([401, 'token_suspended']);
  });

  test('is not renewed in the first half', async () => {
    const kim = await member('viewer');
    await left(kim, 31);
    expect((await kim.browser.open(PAGE)).status).toBe(200);
  });

  test.each<[string, Record<string, string>, number, boolean]>([
    ['a link that htmx follows leads there', { 'hx-request': 'true', 'hx-boosted': 'true' }, 204, true],
    ['a live part of a page does not', { 'hx-request': 'true' }, 200, false],
    [
      'nor does a step back, which htmx cannot follow there',
      { 'hx-request': 'true', 'hx-history-restore-request': 'true' },
      200,
      false,
    ],
  ])('%s', async (_, headers, status, leads) => {
    const kim = await member('viewer');
    await left(kim, 29);
    const answer = await ask(kim, headers);
    expect(answer.status).toBe(status);
    expect(answer.headers.get('hx-redirect')?.startsWith(hosted.provider.issuer) ?? false).toBe(leads);
  });

  test('is opened even if the provider does not respond', async () => {
    const kim = await member('viewer');
    await left(kim, 29);
    expect((await kim.browser.open(PAGE)).status).toBe(303);
    expect((await kim.browser.open(PAGE)).status).toBe(200);
  });

  test('starts a new session, eleven hours after the sign-in', async () => {
    const kim = await member('viewer');
    await hosted.app.sql(
      `update sessions set created_at = now() - interval '11 hours' from users u where u.id = user_id and u.email = $1`,
      kim.email,
    );
    await hosted.signIn(kim.login, kim.browser);
    expect((await bySession(kim)).status).toBe(401);
    expect((await kim.browser.open(`${PUBLIC_URL}/api/v1/account`)).status).toBe(200);
  });

  test('does not extend a session of another user', async () => {
    const [kim, olga] = [await member('viewer'), await member('operator')];
    kim.browser.setCookie(PUBLIC_URL, 'weir_session', olga.browser.cookie('weir_session')!.value);
    await hosted.signIn(kim.login, kim.browser);
    expect((await bySession(olga)).status).toBe(401);
    expect(JSON.parse((await kim.browser.open(`${PUBLIC_URL}/api/v1/account`)).text).email).toBe(kim.email);
  });
});
