/** Management commands on a remote Weir: the same commands as on its machine, over HTTP. */
import { randomUUID } from 'node:crypto';
import { rm, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeAll, expect, test } from 'vitest';
import { managementCommands } from '../../server/cli/manage/commands.ts';
import { send } from '../helpers/agents.ts';
import { startTestApp } from '../helpers/app.ts';
import { type CommandResult, runCommands, weir, weirWith } from '../helpers/command.ts';
import { addPerson } from '../helpers/people.ts';
import { listening } from '../helpers/ports.ts';
import { temporaryDirectory } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(startTestApp);
const directory = temporaryDirectory();
let token: string;
const person = shared(() => addPerson(app, 'administrator'));
beforeAll(async () => {
  const { out } = await weir(app, 'token', 'add', '--email', person.email, '--name', 'remote', '--json');
  token = JSON.parse(out).token;
  await writeFile(join(directory, 'token'), `${token}\n`);
});

/** Runs the commands of the client package: they have no database. */
function remote(args: string[], environment: Record<string, string> = {}): Promise<CommandResult> {
  return runCommands(managementCommands(null), directory, environment, args);
}

const at = (...args: string[]) => remote([...args, '--url', app.url, '--token-file', 'token']);

test('a command prints the same on the machine of Weir and over HTTP, also as JSON', async () => {
  const webhook = await app.addWebhook({ name: 'orders' });
  await weir(app, 'agent', 'add', '--name', 'reader', '--webhook', 'orders');
  const eventId = await send(webhook, '{"type":"a"}');
  for (const args of [
    ['audit', 'list'],
    ['audit', 'list', '--json'],
    ['agent', 'list'],
    ['agent', 'show', 'reader'],
    ['agent', 'show', 'nobody'],
    ['user', 'list', '--json'],
    ['token', 'list', '--email', person.email],
    ['event', 'list', '--webhook', 'orders'],
    ['event', 'show', eventId],
    ['event', 'show', eventId, '--body'],
    ['event', 'list', '--source', 'nowhere'],
    ['rejection', 'list'],
    ['history', '--json'],
    ['delivery', 'list'],
    ['job', 'list', '--json'],
    ['alert', 'list', '--json'],
    ['job', 'show', randomUUID()],
  ]) {
    const local = await weir(app, ...args);
    expect(await at(...args), args.join(' ')).toEqual(local);
    expect(local.out + local.err).not.toBe('');
  }
});

test('WEIR_URL and WEIR_TOKEN are read from the environment, not from .env', async () => {
  const variables = { WEIR_URL: app.url, WEIR_TOKEN: token };
  expect(await remote(['job', 'list', '--json'], variables)).toMatchObject({ code: 0, err: '' });
  const lines = Object.entries(variables).map(([name, value]) => `${name}=${value}`);
  await writeFile(join(directory, '.env'), lines.join('\n'));
  expect(await remote(['job', 'list'])).toMatchObject({ code: 2, err: expect.stringContaining('--url') });
  await rm(join(directory, '.env'));
});

test('with --json a refusal is a problem document on standard error', async () => {
  const id = randomUUID();
  for (const result of [await at('job', 'show', id, '--json'), await weir(app, 'job', 'show', id, '--json')]) {
    expect([result.code, result.out]).toEqual([1, '']);
    expect(JSON.parse(result.err)).toMatchObject({ status: 404, code: 'job_unknown', type: 'about:blank' });
  }
  const usage = await at('event', 'list', '--source', 'nowhere', '--json');
  expect([usage.code, JSON.parse(usage.err).code]).toEqual([2, 'invalid_request']);
});

test('a refused token is said without the token', async () => {
  const wrong = `${token.slice(0, -1)}${token.endsWith('0') ? '1' : '0'}`;
  const refused = await remote(['job', 'list', '--url', app.url], { WEIR_TOKEN: wrong });
  expect(refused.code).toBe(2);
  expect(refused.err).toContain('WEIR_TOKEN');
  expect(refused.err).not.toContain(wrong.slice(3));
});

test('a revoked token is refused, with the address', async () => {
  const made = JSON.parse((await weir(app, 'token', 'add', '--email', person.email, '--name', 'old', '--json')).out);
  await weir(app, 'token', 'revoke', made.id);
  const variables = { WEIR_URL: app.url, WEIR_TOKEN: made.token };
  expect(await remote(['job', 'list'], variables)).toEqual({
    code: 1,
    out: '',
    err: `weir: ${app.url}/ refused the API token: it expired or was revoked, or belongs to another Weir server.\n`,
  });
  const { code, err } = await remote(['job', 'list', '--json'], variables);
  expect([code, JSON.parse(err)]).toEqual([1, expect.objectContaining({ status: 401, code: 'unauthenticated' })]);
});

test.each([
  ['a token of an administrator', () => ['token', 'add', '--name', 'a', '--role', 'administrator']],
  ['a token without an expiry', () => ['token', 'add', '--name', 'a', '--role', 'viewer', '--expires-days', 'never']],
  ['a change of the own user', () => ['user', 'disable', person.email]],
  ['the removal of the own user', () => ['user', 'remove', person.email]],
])('%s needs a session over HTTP, which the refusal says', async (_what, args) => {
  const refused = await at(...args());
  expect([refused.code, refused.out]).toEqual([1, '']);
  expect(refused.err).toMatch(/session cookie of a signed-in browser/);
  expect(JSON.parse((await at(...args(), '--json')).err).code).toBe('session_required');
});

test('over HTTP a token belongs to the user of the call, and a list shows the own ones with --mine', async () => {
  const operator = await addPerson(app, 'operator');
  const asOperator = (...args: string[]) => remote(args, { WEIR_URL: app.url, WEIR_TOKEN: operator.token });
  const { out } = await asOperator(...'token add --name own --role viewer --expires-days 7 --json'.split(' '));
  expect(JSON.parse(out)).toMatchObject({ user_email: operator.email, role: 'viewer' });
  const other = await asOperator('token', 'add', '--name', 'own', '--email', person.email);
  expect(other).toMatchObject({ code: 2, err: expect.stringContaining('belongs to the user who creates it') });
  expect(await asOperator('token', 'list')).toMatchObject({ code: 1, err: expect.stringContaining('administrators') });
  const listed = JSON.parse((await asOperator('token', 'list', '--mine', '--json')).out).items;
  expect(new Set(listed.map(({ user_id }: { user_id: string }) => user_id))).toEqual(new Set([operator.id]));
  expect((await weir(app, 'token', 'list', '--mine')).code).toBe(2);
});

test('the token goes to no target of a redirect', async () => {
  const seen: (string | undefined)[] = [];
  const target = createServer((request, response) => {
    seen.push(request.headers.authorization);
    response.end('{"items":[],"next_cursor":null}');
  });
  const port = await listening(target);
  const redirecting = createServer((_request, response) => {
    response.writeHead(307, { location: `http://127.0.0.1:${port}/api/v1/jobs` }).end();
  });
  const url = `http://127.0.0.1:${await listening(redirecting)}`;
  const { code, out, err } = await remote(['job', 'list', '--url', url, '--token-file', 'token']);
  expect([code, out, seen]).toEqual([1, '', []]);
  expect(err).toContain('redirect');
});

test.each([
  ['http on another machine', ['--url', 'http://192.0.2.1', '--token-file', 'token'], /--insecure/],
  ['no URL', ['--token-file', 'token'], /--url/],
  ['no token', ['--url', 'http://127.0.0.1:9'], /--token-file/],
  ['no http', ['--url', 'ftp://127.0.0.1', '--token-file', 'token'], /http or https/],
])('%s is a usage error', async (_what, args, message) => {
  expect(await remote(['job', 'list', ...args])).toMatchObject({
    code: 2,
    out: '',
    err: expect.stringMatching(message),
  });
});

test('at a URL where nothing listens a command names it and ends with exit code 3', async () => {
  const result = await remote(['job', 'list', '--url', 'http://127.0.0.1:9', '--token-file', 'token']);
  expect(result).toMatchObject({ code: 3, err: expect.stringContaining('http://127.0.0.1:9') });
});

test.each([
  ['migrate'],
  ['keys', 'rotate'],
  ['backup', 'file'],
  ['restore', 'file'],
  ['spool', 'list', 'folder'],
  ['doctor'],
  ['event', 'export'],
  ['event', 'import', 'file'],
])('weir %s works on this machine only: it refuses WEIR_URL instead of ignoring it', async (...args) => {
  const { code, out, err } = await weirWith(app, { WEIR_URL: 'https://weir.example.org' }, ...args);
  expect({ code, out }).toEqual({ code: 2, out: '' });
  expect(err).toContain(
    `weir ${args[0] === 'event' ? args.slice(0, 2).join(' ') : args[0]} works on the Weir of this machine only, and WEIR_URL names another`,
  );
});
