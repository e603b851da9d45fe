import { describe, expect, test } from 'vitest';
import { startTestApp } from '../../../helpers/app.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { addPerson, request } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const TOKEN = /^wu_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/;
const app = shared(startTestApp);
const operator = shared(() => addPerson(app, 'operator'));

const add = (...args: string[]) =>
  weirJson(app, 'token', 'add', '--email', operator.email.toUpperCase(), '--name', 'ci', ...args);
const whoIs = (token: string) =>
  request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });
const tokens = async () => (await weirJson(app, 'token', 'list')).items as Record<string, unknown>[];

describe('token add', () => {
  test('prints a token of the user’s role that is valid for the next request', async () => {
    const made = await add();
    const { token, ...listed } = made;
    expect(token).toMatch(TOKEN);
    expect((await tokens()).find(({ id }) => id === made.id)).toEqual(listed);
    expect((await whoIs(made.token)).body).toMatchObject({ email: operator.email, role: 'operator' });
    const { out } = await weir(app, 'token', 'list');
    expect(out + JSON.stringify(await tokens())).not.toContain(made.token.slice(16));
  });

  test('accepts a lower role and an expiry', async () => {
    const made = await add('--role', 'viewer', '--expires-days', '7');
    expect((await whoIs(made.token)).body.role).toBe('viewer');
    expect((new Date(made.expires_at).getTime() - Date.now()) / 86_400_000).toBeCloseTo(7, 1);
    expect((await add('--expires-days', 'never')).expires_at).toBeNull();
  });

  test('prints the token and its expiry', async () => {
    const { code, out } = await weir(app, 'token', 'add', '--email', operator.email, '--name', ' laptop ');
    expect(code).toBe(0);
    expect(out).toMatch(
      /^Token laptop created for operator-.*\n {2}ID {7}[0-9a-f-]{36}\n {2}Role {5}operator\n {2}Expires {2}\d{4}-.*Z\n {2}Token {4}wu_\w+ {3}\(shown once\)\n$/,
    );
  });

  test('of an unknown or disabled user fails with the email', async () => {
    const gone = await addPerson(app, 'viewer');
    await app.database.query({ text: 'update users set disabled_at = now() where id = $1', values: [gone.id] });
    for (const email of ['nobody@example.org', gone.email]) {
      const { code, out, err } = await weir(app, 'token', 'add', '--email', email, '--name', 'a');
      expect([code, out]).toEqual([1, '']);
      expect(err).toContain(`no active user has the email ${email}`);
    }
  });
});

describe('token list', () => {
  test('prints one line each, filtered by --email', async () => {
    const other = await addPerson(app, 'viewer');
    await add();
    const [head, ...lines] = (await weir(app, 'token', 'list')).out.trimEnd().split('\n');
    expect(head).toMatch(/^ID +USER +NAME +KIND +ROLE +STATE +EXPIRES +LAST USED$/);
    expect(lines.find((line) => line.includes(operator.email))).toMatch(/ci +API +operator +active +\d{4}-\S+ +never$/);
    const { items } = await weirJson(app, 'token', 'list', '--email', other.email);
    expect(items.map((item: { user_id: string }) => item.user_id)).toEqual([other.id]);
  });
});

describe('token revoke', () => {
  test('revokes a token at once, permanently', async () => {
    const { id, token } = await add();
    expect(await weirJson(app, 'token', 'revoke', id.toUpperCase())).toEqual({ id });
    expect((await whoIs(token)).status).toBe(401);
    expect((await tokens()).find((each) => each.id === id)).toMatchObject({ state: 'revoked' });
    expect(await weir(app, 'token', 'revoke', id)).toEqual({ code: 0, out: `${id}: revoked.\n`, err: '' });
  });
});
