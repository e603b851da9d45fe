import { randomUUID } from 'node:crypto';
import { describe, expect, test } from 'vitest';
import { SESSIONS_OF_USER_MAX } from '../../../../server/manage/auth/sessions.ts';
import { lockUserByEmail } from '../../../../server/store/queries/users/hosted.ts';
import { weir } from '../../../helpers/command.ts';
import { PUBLIC_URL, startHostedApp } from '../../../helpers/hosted.ts';
import type { Claims } from '../../../helpers/oidc-provider.ts';
import { ofTest, shared } from '../../../helpers/shared.ts';
import { problemShown } from '../../../helpers/web-client.ts';

const hosted = shared(() => startHostedApp({}));

interface UserRow {
  id: string;
  email: string;
  name: string;
  role: string;
  subject: string | null;
}

/** A new person at the provider. */
function newPerson(claims: Claims): string {
  const login = `p-${randomUUID()}`;
  hosted.provider.people[login] = claims;
  return login;
}

async function userOf(subject: string, { app } = hosted): Promise<UserRow | undefined> {
  const text = 'select id, email, name, role, subject from users where subject = $1';
  return (await app.sql<UserRow>(text, subject))[0];
}

async function addLocal(email: string, disabled = false): Promise<string> {
  const id = randomUUID();
  await hosted.app.sql(
    `insert into users (id, email, role, disabled_at) values ($1, $2, 'viewer', case when $3 then now() end)`,
    id,
    email,
    disabled,
  );
  return id;
}

/** Actions on a user in the audit log, oldest first. */
async function actionsOn(id: string): Promise<string[]> {
  const text = 'select action from audit_log where target_id = $1 order by number';
  return (await hosted.app.sql<{ action: string }>(text, id)).map(({ action }) => action);
}

/** Status and code of a sign-in; a successful one has no code. */
async function outcome(login: string): Promise<[number, string?]> {
  const page = await hosted.signIn(login);
  return page.location === null ? problemShown(page) : [page.status];
}

const address = () => `${randomUUID()}@example.org`;

describe('the role comes from the claim', () => {
  test('the highest of a list of names', async () => {
    const login = newPerson({ weir_role: ['viewer', 'operator'] });
    expect(await outcome(login)).toEqual([303]);
    expect((await userOf(login))!.role).toBe('operator');
  });

  test('without a role the sign-in is refused, and no user is created', async () => {
    const login = newPerson({ weir_role: 'root' });
    expect(await outcome(login)).toEqual([403, 'role_missing']);
    expect(await userOf(login)).toBeUndefined();
  });

  test('each time: a role that was removed at the provider is removed at the next sign-in', async () => {
    const login = newPerson({ email: address(), weir_role: 'administrator' });
    await hosted.signIn(login);
    hosted.provider.people[login]!.weir_role = 'viewer';
    await hosted.signIn(login);
    const user = (await userOf(login))!;
    expect(user.role).toBe('viewer');
    expect(await actionsOn(user.id)).toEqual(['user.create', 'session.sign_in', 'user.update', 'session.sign_in']);
  });

  test('for the last administrator too: it is logged, and the command line restores access', async () => {
    const people: Record<string, Claims> = { kim: { email: 'kim@example.org', weir_role: 'administrator' } };
    const alone = await ofTest(startHostedApp({ people }));
    await alone.signIn('kim');
    people.kim!.weir_role = 'viewer';
    const browser = alone.browser();
    expect((await alone.signIn('kim', browser)).status).toBe(303);
    const missing = () =>
      alone.app.logLines.map((line) => JSON.parse(line)).filter(({ event }) => event === 'administrator_missing');
    expect(missing()).toMatchObject([{ email: 'kim@example.org' }]);
    const users = async () => (await browser.open(`${PUBLIC_URL}/api/v1/users`)).status;
    expect(await users()).toBe(403);

    expect((await weir(alone.app, 'user', 'set-role', 'kim@example.org', 'administrator')).code).toBe(0);
    expect(await users()).toBe(200);
    await alone.signIn('kim');
    expect(await users()).toBe(403);
    expect(missing()).toHaveLength(2);
  });

  test('of a nested claim that only the userinfo endpoint returns', async () => {
    const people = { kim: { email: 'kim@example.org', realm_access: { roles: ['default', 'operator'] } } };
    const other = await ofTest(
      startHostedApp({ people, userInfoOnly: true }, { OIDC_ROLE_CLAIM: 'realm_access.roles' }),
    );
    expect((await other.signIn('kim')).status).toBe(303);
    expect(await userOf('kim', other)).toMatchObject({ role: 'operator', email: 'kim@example.org' });
  });
});

describe('the user', () => {
  test('is created once, and found again by its subject when everything else changed', async () => {
    const login = newPerson({ email: address(), name: 'Before', weir_role: 'viewer' });
    await hosted.signIn(login);
    const before = (await userOf(login))!;
    const email = address();
    Object.assign(hosted.provider.people[login]!, { email, name: 'After' });
    await hosted.signIn(login);
    expect(await userOf(login)).toEqual({ ...before, email, name: 'After' });
  });

  test('is created once for concurrent sign-ins', async () => {
    const login = newPerson({ email: address(), weir_role: 'viewer' });
    const answers = await Promise.all(Array.from({ length: 5 }, () => outcome(login)));
    expect(answers).toEqual(Array.from({ length: 5 }, () => [303]));
    expect(await actionsOn((await userOf(login))!.id)).toEqual(['user.create', ...Array(5).fill('session.sign_in')]);
  });

  test('without an email address gets a placeholder email', async () => {
    const login = newPerson({ email: 'no address', weir_role: 'viewer' });
    expect(await outcome(login)).toEqual([303]);
    expect((await userOf(login))!.email).toMatch(/^[0-9a-f]{32}@oidc\.invalid$/);
  });

  test('keeps the email when the new one belongs to another user', async () => {
    const [mine, yours] = [address(), address()];
    await hosted.signIn(newPerson({ email: yours, weir_role: 'viewer' }));
    const login = newPerson({ email: mine, weir_role: 'viewer' });
    await hosted.signIn(login);
    hosted.provider.people[login]!.email = yours;
    expect(await outcome(login)).toEqual([303]);
    expect((await userOf(login))!.email).toBe(mine);
  });

  test('that is disabled is refused, for any response of the provider', async () => {
    const login = newPerson({ email: address(), weir_role: 'administrator' });
    await hosted.signIn(login);
    await hosted.app.sql('update users set disabled_at = now() where subject = $1', login);
    expect(await outcome(login)).toEqual([403, 'user_disabled']);
  });

  test('has a maximum number of sessions; one more ends the oldest', async () => {
    const login = newPerson({ email: address(), weir_role: 'viewer' });
    const browser = hosted.browser();
    await hosted.signIn(login, browser);
    const { sql } = hosted.app;
    const fill = `insert into sessions (id, user_id, token_hash, expires_at, source_ip)
                  select gen_random_uuid(), id, sha256(gen_random_uuid()::text::bytea), now() + interval '1 day', '127.0.0.1'
                  from users, generate_series(1, $2::int) where subject = $1`;
    await sql(fill, login, SESSIONS_OF_USER_MAX - 2);
    const account = () => browser.open(`${PUBLIC_URL}/api/v1/account`);
    await hosted.signIn(login);
    expect((await account()).status).toBe(200);
    await hosted.signIn(login);
    expect((await account()).status).toBe(401);
    const [row] = await sql<{ count: number }>(
      'select count(*)::int as count from sessions s join users u on u.id = s.user_id where u.subject = $1',
      login,
    );
    expect(row!.count).toBe(SESSIONS_OF_USER_MAX);
  });
});

describe('an existing user of Weir', () => {
  test('is linked when the provider confirms the email, in any case of its letters', async () => {
    const email = address();
    const id = await addLocal(email);
    const login = newPerson({ email: email.toUpperCase(), email_verified: true, weir_role: 'operator' });
    expect(await outcome(login)).toEqual([303]);
    expect(await userOf(login)).toMatchObject({ id, role: 'operator' });
    expect(await actionsOn(id)).toEqual(['user.link', 'session.sign_in']);
  });

  test('is not linked when the email is not verified', async () => {
    const email = address();
    const id = await addLocal(email);
    const login = newPerson({ email, weir_role: 'administrator' });
    expect(await outcome(login)).toEqual([409, 'email_of_another_user']);
    expect(await userOf(login)).toBeUndefined();
    expect(await actionsOn(id)).toEqual([]);
  });

  test('stays disabled', async () => {
    const email = address();
    await addLocal(email, true);
    const login = newPerson({ email, email_verified: true, weir_role: 'administrator' });
    expect(await outcome(login)).toEqual([403, 'user_disabled']);
  });

  test('is not taken over by another person with the same email', async () => {
    const email = address();
    await hosted.signIn(newPerson({ email, email_verified: true, weir_role: 'viewer' }));
    const second = newPerson({ email, email_verified: true, weir_role: 'administrator' });
    expect(await outcome(second)).toEqual([409, 'email_of_another_user']);
  });
});

test('a user who signs out gets the sign-out URL of the provider, and is signed out of Weir', async () => {
  const browser = hosted.browser();
  await hosted.signIn(newPerson({ email: address(), weir_role: 'viewer' }), browser);
  const cookie = `weir_session=${browser.cookie('weir_session')!.value}`;
  const { url } = hosted.app;
  const account = async () => (await fetch(`${url}/api/v1/account`, { headers: { cookie } })).json();
  const { csrf_token } = (await account()) as { csrf_token: string };
  const answer = await fetch(`${url}/api/v1/session`, {
    method: 'DELETE',
    headers: { cookie, 'x-csrf-token': csrf_token, origin: PUBLIC_URL },
  });
  expect(answer.status).toBe(200);
  const { provider_sign_out_url: address_ } = (await answer.json()) as { provider_sign_out_url: string };
  const { origin, pathname, searchParams } = new URL(address_);
  expect([origin + pathname, Object.fromEntries(searchParams)]).toEqual([
    `${hosted.provider.issuer}/session/end`,
    { client_id: 'weir', post_logout_redirect_uri: `${PUBLIC_URL}/` },
  ]);
  expect(await account()).toMatchObject({ status: 401 });
});

test('the user of an email is locked until the sign-in that links it ends', async () => {
  const email = `${randomUUID()}@example.org`;
  const id = await addLocal(email);
  const unlocked = () => hosted.app.sql('select id from users where id = $1 for update skip locked', id);
  await hosted.app.database.transaction(async (query) => {
    expect((await lockUserByEmail(query, email))?.id).toBe(id);
    expect(await unlocked()).toEqual([]);
  });
  expect(await unlocked()).toEqual([{ id }]);
});
