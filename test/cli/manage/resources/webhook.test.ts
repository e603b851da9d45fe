import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { describe, expect, test } from 'vitest';
import { type CommandResult, makeInstallation } from '../../../helpers/command.ts';
import { temporaryDirectory } from '../../../helpers/settings.ts';
import { shared } from '../../../helpers/shared.ts';

const installation = shared(() => makeInstallation({ PUBLIC_URL: 'https://weir.example' }));

const weir = (args: string[], stdin?: string): Promise<CommandResult> =>
  installation.weir(['webhook', ...args], stdin, { PUBLIC_URL: 'https://weir.example' });

async function json(...args: string[]): Promise<Record<string, unknown>> {
  const { code, out, err } = await weir([...args, '--json']);
  expect([code, err]).toEqual([0, '']);
  return JSON.parse(out);
}

const listed = async (id: unknown) =>
  ((await json('list')).items as Record<string, unknown>[]).find((item) => item.id === id);

describe('webhook add', () => {
  test.each([
    ['on the command line', ['--secret', 'given by me'], ''],
    ['on standard input', ['--secret-stdin'], 'given by me\n'],
  ])('does not print a secret that was given %s', async (_how, args, stdin) => {
    for (const form of [[], ['--json']]) {
      const { code, out, err } = await weir(['add', '--name', 'a', ...args, ...form], stdin);
      expect(code).toBe(0);
      expect(out + err).not.toContain('given by me');
    }
  });

  test('prints URL, secret and next steps', async () => {
    const { code, out } = await weir(['add', '--name', 'shop', '--generate-secret']);
    expect(code).toBe(0);
    expect(out).toMatch(
      /^Webhook shop created\.\n {2}URL {5}https:\/\/weir\.example\/in\/[0-9a-f-]{36}\n {2}Secret {2}[0-9a-f]{64} {3}\(shown once\)\n/,
    );
    expect(out).toMatch(/npx --no weir send https:\S+ --secret [0-9a-f]{64}/);
    expect(out).toMatch(
      /\n {2}npx https:\S+\/client-\S+\.tgz listen https:\/\/weir\.example --token-file FILE --webhook /,
    );
  });

  test.each([
    [[], /Try it: {2}\S+ --no weir send \S+ --secret [0-9a-f]{64}\n/],
    [['--rate-limit', '6000'], /Try it: .* --secret [0-9a-f]{64} --github-examples\n/],
    [['--scheme', 'github', '--rate-limit', '6000'], /Try it: .* --scheme github --github-examples\n/],
    [['--scheme', 'github', '--rate-limit', '60'], /Try it: .* --scheme github\n/],
  ])('with %j suggests a command that the rate limit does not delay', async (args, command) => {
    expect((await weir(['add', '--name', 'shop', '--generate-secret', ...args])).out).toMatch(command);
  });
});

describe('webhook', () => {
  test('disable, enable and remove take effect', async () => {
    const { id } = (await json('add', '--name', 'a')) as { id: string };
    expect((await weir(['disable', id])).out).toBe(`${id}: disabled.\n`);
    expect((await listed(id))?.enabled).toBe(false);
    expect(await json('enable', id)).toMatchObject({ id, name: 'a', enabled: true });
    expect((await listed(id))?.enabled).toBe(true);
    expect((await weir(['remove', id.toUpperCase()])).out).toBe(`${id}: removed.\n`);
    expect(await listed(id)).toBeUndefined();
  });

  test('a name that is unique finds a webhook, and another name says so', async () => {
    const { id } = await json('add', '--name', 'only one');
    expect(await json('disable', 'only one')).toMatchObject({ id, enabled: false });
    const unknown = await weir(['disable', 'only']);
    expect([unknown.code, unknown.err]).toEqual([
      1,
      'weir: no webhook has the id or name only; see: weir webhook list\n',
    ]);
    const { id: other } = await json('add', '--name', 'only one');
    const { code, out, err } = await weir(['remove', 'only one']);
    expect([code, out]).toEqual([2, '']);
    for (const one of [id, other]) expect(err).toContain(one);
    expect(await listed(id)).toBeDefined();
  });

  test('show prints all fields, never the secret', async () => {
    const made = await json('add', '--name', 'shown', '--description', 'what it is for', '--generate-secret');
    const { secret, ...rest } = made;
    expect(await json('show', String(made.id))).toEqual(rest);
    const { out } = await weir(['show', String(made.id)]);
    expect(out).toMatch(/^name +shown$/m);
    expect(out).toMatch(/^description +what it is for$/m);
    expect(out).not.toContain(secret);
  });

  test('update changes only what is given, and unsets', async () => {
    const made = await json('add', '--name', 'before', '--scheme', 'stripe', '--secret', 's', '--rate-limit', '7');
    const id = String(made.id);
    const updated = await json(
      'update',
      id,
      '--name',
      'after',
      '--dedupe-header',
      'X-Id',
      '--expect-every-seconds',
      '60',
    );
    const changed = { name: 'after', dedupe_header: 'x-id', expect_every_seconds: 60 };
    expect(updated).toEqual({ ...made, ...changed, updated_at: expect.any(String) });
    const unset = [
      '--dedupe-header',
      '',
      '--expect-every-seconds',
      'none',
      '--rate-limit',
      'none',
      '--enabled',
      'false',
    ];
    expect((await weir(['update', id, ...unset])).out).toBe(`${id}: updated.\n`);
    const none = { dedupe_header: null, expect_every_seconds: null, rate_limit_max: null, enabled: false };
    expect(await listed(id)).toMatchObject({ ...none, name: 'after', signature_scheme: 'stripe', has_secret: true });
  });

  test('update from the scheme custom to a preset drops the definition', async () => {
    const definition = { algorithm: 'hmac-sha256', header: 'x-sig', encoding: 'hex', content: '{body}' };
    const file = join(temporaryDirectory(), 'scheme.json');
    await writeFile(file, JSON.stringify(definition));
    const made = await json('add', '--name', 'a', '--scheme-file', file, '--secret', 's');
    expect(made.signature_scheme).toBe('custom');
    const updated = await json('update', String(made.id), '--scheme', 'github');
    expect([updated.signature_scheme, updated.scheme_definition]).toEqual(['github', null]);
  });

  test('rotate does not print a given secret', async () => {
    const { id } = await json('add', '--name', 'a', '--generate-secret');
    const { code, out } = await weir(['rotate', String(id), '--secret-stdin'], 'given by me');
    expect([code, out]).toEqual([0, `${id}: secret rotated.\n`]);
  });

  test('list prints a table with one line each', async () => {
    const { id } = await json('add', '--name', 'in the table', '--rate-limit', '7');
    const { out } = await weir(['list']);
    const [head, ...lines] = out.trimEnd().split('\n');
    expect(head).toMatch(/^ID +NAME +STATE +SCHEME +SIGNED +RATE LIMIT +CREATED$/);
    expect(lines.find((line) => line.startsWith(String(id)))).toMatch(/in the table +enabled +sha256 +no +7 +2/);
  });
});
