/** Invitation links: once, for 48 hours, until they are revoked. */
import { randomUUID } from 'node:crypto';
import { beforeEach, expect, test } from 'vitest';
import { startTestApp } from '../../helpers/app.ts';
import { addPerson, request, signIn } from '../../helpers/people.ts';
import { shared } from '../../helpers/shared.ts';

const CHOSEN = 'a passphrase that they chose';
const app = shared(startTestApp);
const administrator = shared(() => addPerson(app, 'administrator'));
let email: string;
let id: string;
let token: string;
beforeEach(async () => {
  email = `${randomUUID()}@example.org`;
  const { status, body } = await administrator.api('POST', '/api/v1/users', { email, role: 'operator', invite: true });
  expect([status, body.has_password, body.generated_password]).toEqual([201, false, null]);
  ({ id } = body);
  token = tokenOf(body.invitation_url);
});

const tokenOf = (url: string): string => new URL(url).searchParams.get('token')!;
const accept = (password = CHOSEN, with_ = token) =>
  request(`${app.url}/api/v1/invitation`, 'POST', { token: with_, password }, { origin: app.settings.PUBLIC_URL });
const run = (text: string) => app.sql<{ row: object }>(text, id);
const invitation = (method: 'POST' | 'DELETE') => administrator.api(method, `/api/v1/users/${id}/invitation`);

test('the link sets the password and signs in, once', async () => {
  const answers = await Promise.all([accept(), accept()]);
  expect(answers.map(({ status }) => status).sort()).toEqual([201, 403]);
  const accepted = answers.find(({ status }) => status === 201)!;
  expect(accepted.body.user).toEqual({ id, email, name: '', role: 'operator' });
  expect(accepted.headers.get('set-cookie')).toContain('HttpOnly');
  expect((await signIn(app, email, CHOSEN)).status).toBe(200);
  const { body } = await administrator.api('GET', `/api/v1/users/${id}`);
  expect([body.has_password, body.invited_until]).toEqual([true, null]);
});

test('the database has only a hash of the token, for 48 hours', async () => {
  const [stored] = await run('select to_jsonb(u) as row from users u where id = $1');
  expect(JSON.stringify(stored)).not.toContain(token);
  const [left] = await run(
    `select to_jsonb(extract(epoch from invited_until - now())) as row from users where id = $1`,
  );
  expect(Math.abs(Number(left!.row) - 48 * 3_600)).toBeLessThan(60);
});

test.each<[string, () => Promise<unknown>]>([
  ['has expired', () => run(`update users set invited_until = now() where id = $1`)],
  ['was revoked', () => invitation('DELETE')],
  ['was replaced by a new one', () => invitation('POST')],
  ['is of a disabled user', () => administrator.api('PATCH', `/api/v1/users/${id}`, { disabled: true })],
  [
    'is of a user who got a password',
    () => administrator.api('PATCH', `/api/v1/users/${id}`, { password: 'another passphrase' }),
  ],
])('a link that %s is refused', async (_what, end) => {
  await end();
  const { status, body } = await accept();
  expect([status, body.code]).toEqual([403, 'invitation_refused']);
  expect((await signIn(app, email, CHOSEN)).status).toBe(401);
});

test('a new link works, and a user with a password gets none', async () => {
  const again = await invitation('POST');
  expect((await accept(CHOSEN, tokenOf(again.body.invitation_url))).status).toBe(201);
  const refused = await invitation('POST');
  expect([refused.status, refused.body.code]).toEqual([409, 'password_exists']);
});

test.each([
  ['a short password', () => 'short'],
  ['the email as password', () => email],
])('with %s the link stays valid', async (_what, password) => {
  expect((await accept(password())).status).toBe(422);
  expect((await accept()).status).toBe(201);
});

test('a password and an invitation exclude each other', async () => {
  const given = { email: `${randomUUID()}@example.org`, role: 'viewer', invite: true, password: CHOSEN };
  expect((await administrator.api('POST', '/api/v1/users', given)).status).toBe(422);
});
