import { randomUUID } from 'node:crypto';
import { describe, expect, onTestFinished, test } from 'vitest';
import { makeInstallation } from '../../../helpers/command.ts';
import { PASSWORD } from '../../../helpers/people.ts';
import { shared } from '../../../helpers/shared.ts';

const GENERATED = /^([0-9a-z]{4}-){5}[0-9a-z]{4}$/;
const installation = shared(makeInstallation);

const hosted = {
  AUTH_MODE: 'hosted',
  // Nothing listens on port 9.
  OIDC_ISSUER: 'https://127.0.0.1:9',
  OIDC_CLIENT_ID: 'weir',
  OIDC_CLIENT_SECRET: 'a secret of the client',
};

const weir = (args: string[], stdin?: string) => installation.weir(['user', ...args], stdin);

async function json(args: string[], stdin = ''): Promise<Record<string, unknown>> {
  const { code, out, err } = await weir([...args, '--json'], stdin);
  expect([code, err]).toEqual([0, '']);
  return JSON.parse(out);
}

const users = async () => (await json(['list'])).items as Record<string, unknown>[];
const newEmail = () => `${randomUUID()}@example.org`;
const add = (role = 'viewer') => json(['add', '--email', newEmail(), '--role', role]);

test('the empty list explains how to create a user', async () => {
  expect((await weir(['list'])).out).toBe(
    'No users yet. Create one: npx --no weir user add --email ada@example.org --role administrator\n',
  );
});

describe('user add', () => {
  test('prints a generated password, once', async () => {
    const email = newEmail();
    const { code, out } = await weir(['add', '--email', email, '--role', 'administrator']);
    expect(code).toBe(0);
    expect(out).toMatch(
      new RegExp(
        `^User ${email} created with role administrator\\.\n {2}ID {8}[0-9a-f-]{36}\n {2}Password {2}[0-9a-z-]{29} {3}\\(shown once\\)\n$`,
      ),
    );
    const password = /Password {2}(\S+)/.exec(out)![1]!;
    expect((await weir(['list'])).out + (await weir(['list', '--json'])).out).not.toContain(password);
  });

  test('does not print a password given on standard input', async () => {
    for (const form of [[], ['--json']]) {
      const args = ['add', '--email', newEmail(), '--role', 'viewer', '--password-stdin', ...form];
      const { code, out, err } = await weir(args, `${PASSWORD}\n`);
      expect([code, err]).toEqual([0, '']);
      expect(out).not.toMatch(/assword {2}|horse/);
    }
  });

  test('in hosted mode creates a user without a password, and refuses one', async () => {
    const other = await makeInstallation(hosted);
    onTestFinished(() => other.stop());
    const email = newEmail();
    const args = ['user', 'add', '--email', email, '--role', 'viewer', '--json'];
    expect(JSON.parse((await other.weir(args)).out)).toMatchObject({ email, has_password: false });
    for (const refused of [
      ['add', '--email', newEmail(), '--role', 'viewer', '--password-stdin'],
      ['password', email],
    ]) {
      const { code, err } = await other.weir(['user', ...refused], PASSWORD);
      expect(code).toBe(2);
      expect(err).toContain('AUTH_MODE is hosted');
    }
  });
});

describe('user', () => {
  test.each([
    ['its email', (user: Record<string, unknown>) => String(user.email)],
    ['its email in upper case', (user: Record<string, unknown>) => String(user.email).toUpperCase()],
    ['its id', (user: Record<string, unknown>) => String(user.id)],
  ])('disable, enable, set-role, password and remove find a user by %s', async (_what, key) => {
    const made = await add();
    const shown = async () => (await users()).find(({ id }) => id === made.id);
    expect(await json(['disable', key(made)])).toMatchObject({ id: made.id, disabled: true });
    expect((await weir(['enable', key(made)])).out).toBe(`${made.email}: enabled.\n`);
    expect(await json(['set-role', key(made), 'operator'])).toMatchObject({ role: 'operator' });
    expect(await json(['password', key(made)])).toMatchObject({
      id: made.id,
      email: made.email,
      revoked_tokens: 0,
      generated_password: expect.stringMatching(GENERATED),
    });
    expect((await weir(['password', key(made), '--password-stdin', '--no-revoke-tokens'], PASSWORD)).out).toBe(
      `${made.email}: password changed, and all sessions ended.\n`,
    );
    expect((await weir(['remove', key(made)])).out).toBe(`${key(made)}: removed.\n`);
    expect(await shown()).toBeUndefined();
  });

  test('list prints one line each', async () => {
    const { id, email } = await add();
    const [head, ...lines] = (await weir(['list'])).out.trimEnd().split('\n');
    expect(head).toMatch(/^ID +EMAIL +ROLE +STATE +LAST SIGN-IN$/);
    expect(lines.find((line) => line.startsWith(String(id)))).toMatch(new RegExp(` ${email} +viewer +active +never$`));
  });
});
