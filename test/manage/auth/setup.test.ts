/** The first administrator: by the setup URL, from the settings, and only once. */
import { beforeEach, describe, expect, test } from 'vitest';
import { Users } from '../../../server/manage/api/users/user-changes.ts';
import { Passwords } from '../../../server/manage/auth/password-hash.ts';
import { ensureAdministrator, setupAddress } from '../../../server/manage/auth/setup.ts';
import { OperatorError } from '../../../server/model/fault.ts';
import { systemActor } from '../../../server/store/audit/record.ts';
import { derivedKeys, loadSecretsKeys } from '../../../server/store/secrets/keys.ts';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, cookieOf, PASSWORD, request, signIn } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const EMAIL = 'ada@example.org';
const KEY = Buffer.alloc(32, 5).toString('base64');
const app = shared(() => startTestApp({ SECRETS_KEY: KEY, ADMIN_EMAIL: EMAIL, ADMIN_PASSWORD: PASSWORD }));
/** The state after the installation. */
beforeEach(async () => {
  await app.sql('delete from users');
  await app.sql('delete from sign_in_failures');
  app.settings.ADMIN_PASSWORD = PASSWORD;
});

const address = () =>
  setupAddress(app.database, derivedKeys(loadSecretsKeys(app.settings), 'setup')[0]!, app.settings.PUBLIC_URL);

async function token(): Promise<string> {
  return new URL((await address())!).searchParams.get('token')!;
}

function setUp(given: object, headers: Record<string, string> = {}) {
  return request(`${app.url}/api/v1/setup`, 'POST', given, { origin: app.settings.PUBLIC_URL, ...headers });
}

async function administrators(): Promise<string[]> {
  const text = `select email from users where role = 'administrator' order by email`;
  return (await app.sql<{ email: string }>(text)).map(({ email }) => email);
}

describe('the setup URL', () => {
  test('is of this origin, and the same each time', async () => {
    expect(await address()).toMatch(/^http:\/\/127\.0\.0\.1:\d+\/setup\?token=[\w-]{43}$/);
    expect(await address()).toBe(await address());
  });

  test('creates the first administrator and signs in', async () => {
    const [before] = await app.sql<{ entries: number }>('select count(*)::int as entries from audit_log');
    const answer = await setUp({ token: await token(), email: EMAIL.toUpperCase(), name: 'Ada', password: PASSWORD });
    expect(answer.status).toBe(201);
    expect(answer.body.user).toEqual({ id: expect.any(String), email: EMAIL, name: 'Ada', role: 'administrator' });
    const cookie = cookieOf(answer);
    const account = await request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie });
    expect(account.body).toMatchObject({ email: EMAIL, csrf_token: answer.body.csrf_token });
    expect((await signIn(app, EMAIL)).status).toBe(200);
    const rows = await app.sql<{ action: string }>(
      'select action from audit_log where number > $1 order by number',
      before!.entries,
    );
    expect(rows.map(({ action }) => action)).toEqual(['user.create', 'session.sign_in', 'session.sign_in']);
  });

  test('is closed once there is an administrator, even with the correct token', async () => {
    const given = { token: await token(), email: EMAIL, password: PASSWORD };
    await addPerson(app, 'administrator');
    expect(await address()).toBeNull();
    for (const each of [given, { ...given, token: 'guessed' }]) {
      const { status, body } = await setUp(each);
      expect([status, body.code]).toEqual([404, 'setup_closed']);
    }
  });

  test('creates one administrator for concurrent requests', async () => {
    const given = { token: await token(), password: PASSWORD };
    const answers = await Promise.all([1, 2, 3, 4].map((i) => setUp({ ...given, email: `ada${i}@example.org` })));
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 404, 404, 404]);
    expect(await administrators()).toHaveLength(1);
    const sessions = await app.sql('select from sessions');
    expect(sessions).toHaveLength(1);
  });

  test.each([
    ['another token', { token: 'A'.repeat(43) }, 403, 'setup_refused'],
    ['an empty token', { token: '' }, 403, 'setup_refused'],
    ['no token', { token: undefined }, 422, 'invalid_request'],
    ['a short password', { password: 'short' }, 422, 'invalid_request'],
    ['no email', { email: undefined }, 422, 'invalid_request'],
    ['a role', { role: 'viewer' }, 422, 'invalid_request'],
    ['the email of a viewer', { email: 'viewer@example.org' }, 409, 'email_taken'],
  ])('with %s creates no user', async (_what, change, status, code) => {
    const users = new Users({ database: app.database, passwords: new Passwords() }, systemActor);
    await users.create({ email: 'viewer@example.org', name: '', role: 'viewer', password: null });
    const answer = await setUp({ token: await token(), email: EMAIL, password: PASSWORD, ...change });
    expect([answer.status, answer.body.code, answer.headers.get('set-cookie')]).toEqual([status, code, null]);
    expect(await administrators()).toEqual([]);
  });
});

describe('ADMIN_EMAIL and ADMIN_PASSWORD', () => {
  const ensure = () => ensureAdministrator(app.database, app.settings);

  test('create the first administrator once', async () => {
    await Promise.all([ensure(), ensure()]);
    expect(await administrators()).toEqual([EMAIL]);
    expect((await signIn(app, EMAIL)).body.user.role).toBe('administrator');
  });

  test('change nothing when there is an administrator, even one with that address', async () => {
    await ensure();
    const [{ before }] = (await app.sql('select users::text as before from users')) as [{ before: string }];
    app.settings.ADMIN_PASSWORD = `${PASSWORD} anew`;
    await ensure();
    expect(await app.sql('select users::text as before from users')).toEqual([{ before }]);
  });

  test('are refused when the address belongs to a user with another role', async () => {
    const users = new Users({ database: app.database, passwords: new Passwords() }, systemActor);
    await users.create({ email: EMAIL, name: '', role: 'viewer', password: null });
    const refusal = await ensure().catch((error) => error);
    expect(refusal).toBeInstanceOf(OperatorError);
    expect(refusal.fix).toBe(`assign the role with: npx --no weir user set-role ${EMAIL} administrator`);
    expect(await administrators()).toEqual([]);
  });
});
