/** Input of strangers reaches the operator's terminal only as text. */
import { randomUUID } from 'node:crypto';
import { readdirSync, readFileSync } from 'node:fs';
import { writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import type { AddressInfo } from 'node:net';
import { join } from 'node:path';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import { managementCommands } from '../../server/cli/manage/commands.ts';
import { createCredential } from '../../server/model/credential.ts';
import { addAgent, startAgentApp, type TestAgent } from '../helpers/agents.ts';
import { runCommands, weir, weirJson } from '../helpers/command.ts';
import { BODY, CONTROLS, type HostileTexts, OBEYED, sendHostileTexts } from '../helpers/hostile.ts';
import { addPerson } from '../helpers/people.ts';
import { someKey, temporaryDirectory } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';

const app = shared(() => startAgentApp({ SECRETS_KEY: someKey }));
let agent: TestAgent;
let sent: HostileTexts;
beforeAll(async () => {
  const administrator = await addPerson(app, 'administrator');
  sent = await sendHostileTexts(app, administrator);
  agent = await addAgent(app, [sent.webhook]);
  await administrator.api('POST', `/api/v1/events/${sent.eventId}/replay`, {});
  await agent.nack([(await agent.claimOne()).receipt], { reason: `it said ${CONTROLS}` });
  await administrator.api('PATCH', `/api/v1/webhooks/${sent.webhook.id}`, { description: 'a\n\u202eb' });
});

describe('output as text', () => {
  test.each<[string, () => string[], RegExp]>([
    [
      'an event',
      () => ['event', 'show', sent.eventId],
      /\\x1b\[2J\\x1b\]0;owned\\x07\\x0d\\x08\\x7f\\x9b31m\\u202egpj/,
    ],
    ['a refused request', () => ['rejection', 'show', sent.rejectionId], /\\x1b\[2J\\x1b\]0;owned\\x07/],
    ['events', () => ['event', 'list'], /text\/javascript; a="\\u202e/],
    ['refused requests', () => ['rejection', 'list'], /digest_differs/],
    ['deliveries', () => ['delivery', 'list'], /it said|pending/],
    ['webhooks', () => ['webhook', 'list'], /\\u202egpj/],
    ['a webhook', () => ['webhook', 'show', sent.webhook.id], /description +a\\x0a\\u202eb\n/],
    ['the audit log', () => ['audit', 'list'], /\\u202egpj/],
    ['agents', () => ['agent', 'list'], /active/],
  ])('%s has its control characters escaped', async (_, args, wanted) => {
    const { code, out, err } = await weir(app, ...args());
    expect([code, err]).toEqual([0, '']);
    expect(out).toMatch(wanted);
    expect(out).not.toMatch(OBEYED);
  });

  test('an error that repeats the input has its control characters escaped', async () => {
    const { code, err } = await weir(app, 'event', 'show', `x${CONTROLS}`);
    expect(code).toBe(2);
    expect(err).toContain('\\x1b[2J');
    expect(err).not.toMatch(OBEYED);
  });
});

test.each<[string, () => string[]]>([
  ['event', () => ['event', 'show', sent.eventId]],
  ['rejection', () => ['rejection', 'show', sent.rejectionId]],
])('output as JSON --body of %s prints the bytes, and --json the document', async (_, args) => {
  // The helper decodes bytes as UTF-8, which does not preserve a Latin-1 file.
  expect((await weir(app, ...args(), '--body')).out).toBe(BODY.toString());
  expect(await weirJson(app, ...args())).toMatchObject({ bytes: BODY.length });
  expect((await weir(app, ...args(), '--json')).out).not.toMatch(OBEYED);
});

describe('text of a server begins no line of its own', () => {
  const LINE = 'weir: all is well';
  const text = `x\n${LINE}\r\n${LINE}`;
  const id = randomUUID();
  const names =
    'id number name address email role secret credential url state generated_password user_email moved webhook_id agent_id event_id reason attempts received_at';
  const listed = {
    ...Object.fromEntries(names.split(' ').map((name) => [name, text])),
    cell: { number: text, empty_at: text },
    more: false,
    headers: { [text]: text },
  };
  const list = { items: [listed], next_cursor: null, cells_away: [{ number: text, name: text, since: text }] };
  let answer: object;
  let status: number;
  const directory = temporaryDirectory();
  const server = createServer((request, response) => {
    const isList = /\/(cells|events|attempts|activity)(\?|$)/.test(request.url!) && request.method === 'GET';
    response.writeHead(status, { 'content-type': 'application/json' });
    response.end(JSON.stringify(isList && status === 200 ? list : answer));
  });
  beforeAll(async () => {
    await writeFile(join(directory, 'file'), createCredential('wu').text);
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve));
  });
  afterAll(() => server.close());

  test.each([
    [200, ['cell', 'add', '--database-file', 'file', '--name', 'c']],
    [200, ['cell', 'update', '1', '--name', 'c']],
    [200, ['cell', 'drain', '1']],
    [200, ['agent', 'add', '--name', 'a']],
    [200, ['agent', 'rotate', id]],
    [200, ['user', 'add', '--email', 'a@example.org', '--role', 'viewer']],
    [200, ['webhook', 'enable', id]],
    [200, ['webhook', 'rotate', id]],
    [200, ['event', 'list']],
    [200, ['event', 'list', '--json']],
    [200, ['delivery', 'show', id]],
    [200, ['rejection', 'recheck', id]],
    [409, ['webhook', 'enable', id]],
    [422, ['agent', 'add', '--name', 'a']],
  ])('%s to %j', async (code, args) => {
    status = code;
    answer =
      code === 422
        ? { code: 'invalid_request', errors: [{ pointer: `/${text}`, detail: text }] }
        : { ...listed, code: text, detail: text };
    const { port } = server.address() as AddressInfo;
    const remote = ['--url', `http://127.0.0.1:${port}`, '--token-file', 'file'];
    const { out, err } = await runCommands(managementCommands(null), directory, {}, [...args, ...remote]);
    expect(`${out}${err}`).toContain(LINE);
    expect(`${out}${err}`.split(/[\r\n]/)).not.toContainEqual(expect.stringMatching(`^${LINE}`));
  });
});

test('commands write only through io.ts', () => {
  // The progress line of a terminal has control characters, and the output of commands run by consume is passed through.
  const exempt = ['io.ts', 'consume/agent.ts'];
  const files = readdirSync('server/cli', { recursive: true, encoding: 'utf8' }).filter((file) => file.endsWith('.ts'));
  const wrong = files
    .filter((file) => !exempt.includes(file))
    .filter((file) => /\b(stdout|stderr)\.write\(|\bconsole\./.test(readFileSync(`server/cli/${file}`, 'utf8')));
  expect(wrong, 'use printText, printMessage, printJson or printBytes').toEqual([]);
});
