import { randomUUID } from 'node:crypto';
import { beforeAll, beforeEach, describe, expect, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import {
  addPerson,
  cookieOf,
  givePassword,
  PASSWORD,
  request,
  signIn,
  type TestPerson,
  withoutNulls,
} from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const app = shared(startTestApp);
let root: TestPerson;
beforeAll(async () => {
  root = await addPerson(app, 'administrator', PASSWORD);
});

/** The password again, which a session requires. */
const confirmed = { current_password: PASSWORD };
const newEmail = () => `${randomUUID()}@example.org`;
const account = (cookie: string) => request(`${app.url}/api/v1/account`, 'GET', undefined, { cookie });
const at = (id: string) => `/api/v1/users/${id}`;
const time = expect.stringMatching(/^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z$/);

async function actions(targetId: string): Promise<string[]> {
  const rows = await app.sql<{ action: string }>(
    `select action from audit_log where target_id = $1 and action like 'user.%' order by number`,
    targetId,
  );
  return rows.map(({ action }) => action);
}

describe('a user is created', () => {
  test('with a given password, which signs the user in', async () => {
    const email = newEmail();
    const made = await root.api('POST', '/api/v1/users', {
      email,
      name: ' Ada ',
      role: 'operator',
      password: PASSWORD,
    });
    expect([made.status, made.headers.get('location')]).toEqual([201, at(made.body.id)]);
    expect(withoutNulls(made.body)).toEqual({
      id: expect.stringMatching(/^[0-9a-f-]{36}$/),
      email,
      name: 'Ada',
      role: 'operator',
      disabled: false,
      has_password: true,
      hosted: false,
      created_at: time,
      updated_at: time,
    });
    expect((await signIn(app, email)).body.user.role).toBe('operator');
    const { generated_password, invitation_url, ...shown } = made.body;
    expect((await root.api('GET', at(made.body.id))).body).toEqual({ ...shown, signed_in_at: time });
    expect(await actions(made.body.id)).toEqual(['user.create']);
  });

  test('with a generated password that is shown once and not stored', async () => {
    const email = newEmail();
    const { body } = await root.api('POST', '/api/v1/users', { email, role: 'viewer' });
    expect((await signIn(app, email, body.generated_password)).status).toBe(200);
    expect((await root.api('GET', at(body.id))).text).not.toContain('generated_password');
    const [{ contained }] = (await app.sql(
      `select exists (select from users u where u::text like '%' || $1 || '%') or exists (select from audit_log a where a::text like '%' || $1 || '%') as contained`,
      body.generated_password,
    )) as [{ contained: boolean }];
    expect(contained).toBe(false);
  });

  const good = { email: 'new@example.org', role: 'viewer', password: PASSWORD };
  test.each([
    ['no email', { ...good, email: undefined }, '/email'],
    ['an invalid email', { ...good, email: 'new' }, '/email'],
    ['an endless email', { ...good, email: `${'x'.repeat(250)}@example.org` }, '/email'],
    ['no role', { ...good, role: undefined }, '/role'],
    ['a role that there is not', { ...good, role: 'root' }, '/role'],
    ['a name too long', { ...good, name: 'x'.repeat(201) }, '/name'],
    ['a short password', { ...good, password: 'short' }, '/password'],
    ['the email as password', { ...good, password: good.email.toUpperCase() }, '/password'],
    ['a field more', { ...good, id: randomUUID() }, '/id'],
  ])('not with %s', async (_what, body, pointer) => {
    const answer = await root.api('POST', '/api/v1/users', body);
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
    expect(answer.body.errors[0].detail).toMatch(/^[A-Z].+[.0-9"]$/);
    expect((await root.api('GET', '/api/v1/users')).text).not.toContain(good.email);
  });

  test('once for each email, in any case', async () => {
    const email = newEmail();
    const make = (given: string) => root.api('POST', '/api/v1/users', { email: given, role: 'viewer' });
    const answers = await Promise.all([make(email), make(email.toUpperCase())]);
    expect(answers.map(({ status }) => status).sort()).toEqual([201, 409]);
    const refused = await make(email);
    expect([refused.status, refused.body.code]).toEqual([409, 'email_taken']);
  });
});

test('users are found by a part of the email or the name, case-insensitively, and by role', async () => {
  const create = async (email: string, name: string, role: string) =>
    expect(
      (await root.api('POST', '/api/v1/users', { email, name, role, password: 'a quiet passphrase' })).status,
    ).toBe(201);
  await create('grace.findable@example.org', 'Grace', 'operator');
  await create('someone@example.org', 'Ada Findable', 'viewer');
  const emails = async (query: string) =>
    (await root.api('GET', `/api/v1/users?${query}`)).body.items.map(({ email }: { email: string }) => email);
  expect(await emails('q=FINDABLE')).toEqual(['grace.findable@example.org', 'someone@example.org']);
  expect(await emails('q=findable&role=viewer')).toEqual(['someone@example.org']);
  expect(await emails('q=findable&limit=1&cursor=grace.findable%40example.org')).toEqual(['someone@example.org']);
  expect(await emails('q=%25')).toEqual([]);
  expect((await root.api('GET', '/api/v1/users?role=king')).status).toBe(422);
});

describe('an update', () => {
  test('of name and role takes effect with the next request', async () => {
    const person = await addPerson(app, 'viewer');
    const { status, body } = await root.api('PATCH', at(person.id), { name: 'New', role: 'operator' });
    expect([status, body.name, body.role]).toEqual([200, 'New', 'operator']);
    expect((await account(person.cookie)).body).toMatchObject({ name: 'New', role: 'operator' });
    expect(await actions(person.id)).toEqual(['user.update']);
  });

  test('to disabled ends sessions permanently; tokens are refused until the user is enabled again', async () => {
    const person = await addPerson(app, 'viewer');
    expect((await root.api('PATCH', at(person.id), { disabled: true })).body.disabled).toBe(true);
    expect([(await account(person.cookie)).status, (await person.api('GET', '/api/v1/account')).status]).toEqual([
      401, 401,
    ]);
    expect((await root.api('PATCH', at(person.id), { disabled: false })).body.disabled).toBe(false);
    expect((await account(person.cookie)).status).toBe(401);
    expect((await person.api('GET', '/api/v1/account')).status).toBe(200);
  });

  test('to disabled with revoke_tokens ends tokens permanently', async () => {
    const person = await addPerson(app, 'viewer');
    const disabled = await root.api('PATCH', at(person.id), { disabled: true, revoke_tokens: true });
    expect(disabled.body).toMatchObject({ disabled: true, revoked_tokens: 1 });
    expect((await root.api('PATCH', at(person.id), { disabled: false })).status).toBe(200);
    expect((await person.api('GET', '/api/v1/account')).status).toBe(401);
  });

  test('of the password ends the sessions, and only the new password signs in', async () => {
    const person = await addPerson(app, 'viewer');
    await givePassword(app, person);
    const cookie = cookieOf(await signIn(app, person.email));
    expect((await root.api('PATCH', at(person.id), { password: `${PASSWORD} anew` })).status).toBe(200);
    expect((await account(cookie)).status).toBe(401);
    expect((await signIn(app, person.email)).status).toBe(401);
    expect((await signIn(app, person.email, `${PASSWORD} anew`)).status).toBe(200);
    expect((await actions(person.id)).at(-1)).toBe('user.reset_password');
  });

  test('of the user’s own password needs the current one', async () => {
    const { status, body } = await root.browse('PATCH', at(root.id), {
      password: PASSWORD,
      current_password: PASSWORD,
    });
    expect([status, body.errors[0].pointer]).toEqual([422, '/password']);
  });

  test.each([
    ['a role that there is not', { role: 'root' }, '/role'],
    ['disabled neither true nor false', { disabled: 'yes' }, '/disabled'],
    ['a short password', { password: 'short' }, '/password'],
    ['an email, which stays', { email: 'other@example.org' }, '/email'],
  ])('is refused with %s', async (_what, body, pointer) => {
    const person = await addPerson(app, 'viewer');
    const answer = await root.api('PATCH', at(person.id), body);
    expect([answer.status, answer.body.errors[0].pointer]).toEqual([422, pointer]);
    expect(await actions(person.id)).toEqual([]);
  });
});

test('a deleted user has no sessions and tokens, and the email can be used again', async () => {
  const person = await addPerson(app, 'viewer');
  const deleted = await root.api('DELETE', at(person.id));
  expect([deleted.status, deleted.text]).toEqual([204, '']);
  expect([(await account(person.cookie)).status, (await person.api('GET', '/api/v1/account')).status]).toEqual([
    401, 401,
  ]);
  for (const method of ['GET', 'PATCH', 'DELETE']) {
    const { status, body } = await root.api(method, at(person.id), method === 'PATCH' ? { name: 'x' } : undefined);
    expect([status, body.code]).toEqual([404, 'user_unknown']);
  }
  expect(await actions(person.id)).toEqual(['user.delete']);
  expect((await root.api('POST', '/api/v1/users', { email: person.email, role: 'viewer' })).status).toBe(201);
});

describe('the last active administrator', () => {
  // The others end, and their sessions with them.
  beforeEach(async () => {
    await app.sql('delete from users');
    root = await addPerson(app, 'administrator', PASSWORD);
  });

  const ends: [
    string,
    (person: TestPerson, id: string) => Promise<{ status: number; body: { code: string } | null }>,
  ][] = [
    ['demoted', (by, id) => by.browse('PATCH', at(id), { role: 'operator', ...confirmed })],
    ['disabled', (by, id) => by.browse('PATCH', at(id), { disabled: true, ...confirmed })],
    ['deleted', (by, id) => by.browse('DELETE', at(id), confirmed)],
  ];

  test.each(ends)('is not %s, by itself or beside a disabled one', async (_how, end) => {
    const disabled = await addPerson(app, 'administrator');
    await root.api('PATCH', at(disabled.id), { disabled: true });
    const { status, body } = await end(root, root.id);
    expect([status, body!.code]).toEqual([409, 'last_administrator']);
    expect((await root.api('GET', at(root.id))).body).toMatchObject({ role: 'administrator', disabled: false });
  });

  test.each(ends)('is there still when all are %s at once', async (_how, end) => {
    const all = [root, ...(await Promise.all([1, 2, 3].map(() => addPerson(app, 'administrator', PASSWORD))))];
    // Each administrator deletes the next one, concurrently.
    const answers = await Promise.all(all.map((by, i) => end(by, all[(i + 1) % all.length]!.id)));
    const rows = await app.sql(`select from users where role = 'administrator' and disabled_at is null`);
    expect(rows.length).toBeGreaterThanOrEqual(1);
    // Some requests arrived after their sender was deleted, and the remaining administrators were kept.
    for (const { status } of answers) expect([200, 204, 401, 403, 409]).toContain(status);
  });

  test('can be removed when another one exists', async () => {
    const another = await addPerson(app, 'administrator', PASSWORD);
    expect((await root.browse('PATCH', at(root.id), { role: 'operator', ...confirmed })).status).toBe(200);
    expect((await another.api('PATCH', at(root.id), { role: 'administrator' })).status).toBe(200);
    expect((await another.browse('DELETE', at(another.id), confirmed)).status).toBe(204);
  });
});
