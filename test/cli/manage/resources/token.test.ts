import { randomUUID } from 'node:crypto';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { startTestApp, type TestApp } from '../../../helpers/app.ts';
import { weir, weirJson } from '../../../helpers/command.ts';
import { addPerson, request, type TestPerson } from '../../../helpers/people.ts';

const TOKEN = /^wu_[0-9A-Za-z]{12}_[0-9A-Za-z]{49}$/;
let app: TestApp;
let operator: TestPerson;
beforeAll(async () => {
  app = await startTestApp();
  operator = await addPerson(app, 'operator');
});
afterAll(() => app.stop());

const add = (...args: string[]) => weirJson(app, 'token', 'add', '--email', operator.email, '--name', 'ci', ...args);
const whoIs = (token: string) =>
  request(`${app.url}/api/v1/account`, 'GET', undefined, { authorization: `Bearer ${token}` });
const tokens = async () => (await weirJson(app, 'token', 'list')).items as Record<string, unknown>[];

describe('token add', () => {
  test('prints a token of the user’s role that is valid for the next request', async () => {
    const made = await add();
    const { token, ...listed } = made;
    expect(token).toMatch(TOKEN);
    expect((await tokens()).find(({ id }) => id === made.id)).toEqual(listed);
    expect(listed).toMatchObject({ role: 'operator', state: 'active', expires_at: expect.any(String) });
    expect((await whoIs(made.token)).body).toMatchObject({ email: operator.email, role: 'operator' });
    const { out } = await weir(app, 'token', 'list');
    expect(out + JSON.stringify(await tokens())).not.toContain(made.token.slice(16));
  });

  test('finds the user case-insensitively', async () => {
    const email = operator.email.toUpperCase();
    expect((await weirJson(app, 'token', 'add', '--email', email, '--name', 'ci')).token).toMatch(TOKEN);
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

  test('is recorded as made by a command, without the token', async () => {
    const { id, token } = await add();
    const [entry] = (await weirJson(app, 'audit', 'list', '--target', id)).items;
    expect(entry).toMatchObject({ action: 'token.create', actor: { kind: 'command', id: null, address: null } });
    expect(entry.actor.name).not.toBe('');
    expect(JSON.stringify(entry)).not.toContain(token.slice(3, 15));
  });

  test.each([
    ['no name', ['--email', 'a@example.org'], /--name/],
    ['no email', ['--name', 'a'], /--email/],
    ['an invalid email', ['--email', 'me', '--name', 'a'], /email address/],
    [
      'an unknown role',
      ['--email', 'a@example.org', '--name', 'a', '--role', 'root'],
      /viewer, operator, administrator/,
    ],
    ['days that are not a number', ['--email', 'a@example.org', '--name', 'a', '--expires-days', 'x'], /whole number/],
    ['an unknown option', ['--email', 'a@example.org', '--name', 'a', '--scope', 'all'], /--scope/],
  ])('with %s is a usage error with a reason, and creates nothing', async (_what, args, message) => {
    const before = (await tokens()).length;
    const { code, out, err } = await weir(app, 'token', 'add', ...args);
    expect([code, out]).toEqual([2, '']);
    expect(err).toMatch(message);
    expect(await tokens()).toHaveLength(before);
  });

  test.each([
    ['no days', ['--name', 'a', '--expires-days', '0'], 2, /from 1 to 3650/],
    ['too many days', ['--name', 'a', '--expires-days', '3651'], 2, /from 1 to 3650/],
    ['an empty name', ['--name', ' '], 2, /name: Give 1 to 200 characters/],
    ['a name with an escape', ['--name', 'a\x1b[2J'], 2, /name: Control characters/],
    [
      'a role above the user’s',
      ['--name', 'a', '--role', 'administrator'],
      2,
      /is operator: a token cannot have a higher one/,
    ],
  ])('with %s creates nothing', async (_what, args, exitCode, message) => {
    const { code, out, err } = await weir(app, 'token', 'add', '--email', operator.email, ...args);
    expect([code, out]).toEqual([exitCode, '']);
    expect(err).toMatch(message);
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
    expect(head).toMatch(/^ID +USER +NAME +ROLE +STATE +EXPIRES +LAST USED$/);
    expect(lines.find((line) => line.includes(operator.email))).toMatch(/ci +operator +active +\d{4}-\S+ +never$/);
    const { items } = await weirJson(app, 'token', 'list', '--email', other.email);
    expect(items.map((item: { user_id: string }) => item.user_id)).toEqual([other.id]);
  });

  test('of an unknown user fails', async () => {
    expect((await weir(app, 'token', 'list', '--email', 'nobody@example.org')).code).toBe(1);
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

  test('of an unknown id fails with the id', async () => {
    const id = randomUUID();
    const { code, err } = await weir(app, 'token', 'revoke', id);
    expect([code, err]).toEqual([1, `weir: no token has the id ${id}; see: weir token list\n`]);
  });

  test.each([['revoke'], ['revoke', 'nonsense'], ['frobnicate']])('%s %s is a usage error', async (...args) => {
    expect((await weir(app, 'token', ...args)).code).toBe(2);
  });
});
