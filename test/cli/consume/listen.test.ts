import { spawn } from 'node:child_process';
import { writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { afterEach, beforeEach, describe, expect, test } from 'vitest';
import { define as defineListen } from '../../../server/cli/consume/listen.ts';
import { TEMPORARY_AGENT_SECONDS } from '../../../server/model/agents.ts';
import { expireTemporaryAgents } from '../../../server/operate/primary/maintenance.ts';
import { send, startAgentApp } from '../../helpers/agents.ts';
import type { TestWebhook } from '../../helpers/app.ts';
import { ForwardTarget } from '../../helpers/forward-target.ts';
import { addPerson } from '../../helpers/people.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { startCommand } from '../command.ts';

const weir = shared(startAgentApp);
const operator = shared(() => addPerson(weir, 'operator'));
let webhook: TestWebhook;
let target: ForwardTarget;
const directory = temporaryDirectory();
beforeEach(async () => {
  target = new ForwardTarget();
  await target.start();
  webhook = await weir.addWebhook({ name: 'orders' });
});
afterEach(() => target.stop());

function listen(args: string[], token = operator.token, url = weir.url) {
  return startCommand(defineListen, [url, ...args], {
    directory,
    environment: token === '' ? {} : { WEIR_TOKEN: token },
  });
}

const usual = () => ['--webhook', webhook.id, '--forward', target.url];

/** Temporary agents of the webhook. */
async function agents(): Promise<string[]> {
  const { agent_ids } = (await operator.api('GET', `/api/v1/webhooks/${webhook.id}`)).body;
  return agent_ids;
}

test('weir listen forwards new events until Ctrl-C, then removes its agent', async () => {
  await send(webhook, '{"early":true}');
  const { ended, err, out } = listen([...usual(), '--secret', 'of the target']);
  await until(() => err().includes('Press Ctrl-C'));
  expect(err()).toBe(
    `Webhook orders: requests to ${weir.settings.PUBLIC_URL}${webhook.path} are forwarded to ${target.url}, signed by the scheme sha256.\n` +
      'Only events that arrive from now on are forwarded. Press Ctrl-C to stop.\n',
  );
  const [id] = await agents();
  expect((await operator.api('GET', `/api/v1/agents/${id}`)).body).toMatchObject({ temporary: true });
  await send(webhook, '{"new":true}');
  await until(() => out() !== '');
  process.emit('SIGINT', 'SIGINT');
  expect(await ended).toMatchObject({ exitCode: 0, err: expect.stringMatching(/1 delivery in [\d.]+ s: 1 done\n$/) });
  expect(out()).toMatch(/^\d\d:\d\d:\d\d {2}POST .* 12 B .* 204\n$/);
  expect(target.arrived.map(({ body }) => body.toString())).toEqual(['{"new":true}']);
  expect(target.arrived[0]!.headers).toMatchObject({ 'x-hub-signature-256': expect.stringMatching(/^sha256=/) });
  expect((await operator.api('GET', `/api/v1/agents/${id}`)).status).toBe(404);
});

test('--filter forwards only events that it lets through', async () => {
  const { ended, err } = listen([...usual(), '--filter', 'body.n > 1']);
  await until(() => err().includes('Press Ctrl-C'));
  for (const n of [1, 2]) await send(webhook, JSON.stringify({ n }));
  await until(() => target.arrived.length === 1);
  process.emit('SIGINT', 'SIGINT');
  expect(await ended).toMatchObject({ exitCode: 0, err: expect.stringContaining('1 delivery in') });
  expect(target.arrived.map(({ body }) => body.toString())).toEqual(['{"n":2}']);
});

test('Ctrl-C ends a request that hangs after --drain-seconds', async () => {
  target.answering = () => {};
  const { ended, err } = listen([...usual(), '--drain-seconds', '0']);
  await until(() => err().includes('Press Ctrl-C'));
  await send(webhook, '{}');
  await until(() => target.arrived.length === 1);
  process.emit('SIGINT', 'SIGINT');
  const { exitCode, out } = await ended;
  expect(exitCode).toBe(0);
  expect(out).toContain('stopped');
  expect(await agents()).toEqual([]);
});

test('an agent that a person revoked ends the command', async () => {
  const { ended, err } = listen(usual());
  await until(() => err().includes('Press Ctrl-C'));
  const [id] = await agents();
  let answer = () => {};
  target.answering = (response) => {
    answer = () => void response.writeHead(200).end();
  };
  await send(webhook, '{}');
  await until(() => target.arrived.length === 1);
  await operator.api('DELETE', `/api/v1/agents/${id}`);
  answer();
  expect(await ended).toMatchObject({
    exitCode: 1,
    message:
      'The temporary agent was removed: it was revoked, or had made no request for an hour. Start weir listen again.',
  });
});

test('after kill -9 the server removes the agent an hour after it was last seen', async () => {
  const command = fileURLToPath(new URL('../../../dist/server/cli/weir.js', import.meta.url));
  const child = spawn(process.execPath, [command, 'listen', weir.url, ...usual()], {
    stdio: 'ignore',
    env: { ...process.env, WEIR_TOKEN: operator.token },
  });
  const exited = new Promise((resolve) => child.once('exit', resolve));
  target.answering = () => void child.kill('SIGKILL');
  await until(async () => (await agents()).length === 1);
  await send(webhook, '{}');
  await exited;
  const [id] = await agents();
  await expireTemporaryAgents(weir.database, Date.now() + TEMPORARY_AGENT_SECONDS * 500);
  expect(await agents()).toEqual([id]);
  await expireTemporaryAgents(weir.database, Date.now() + TEMPORARY_AGENT_SECONDS * 1000 + 60_000);
  expect(await agents()).toEqual([]);
});

describe('is refused, and leaves no agent behind:', () => {
  test('a token of a viewer, with the role that is needed', async () => {
    const viewer = await addPerson(weir, 'viewer');
    expect(await listen(usual(), viewer.token).ended).toMatchObject({
      exitCode: 1,
      message: expect.stringMatching(/This needs the role operator; your role is viewer\. .* --role operator$/),
    });
    expect(await agents()).toEqual([]);
  });

  const wrong: [string, () => [string[], string?, string?], 1 | 2, RegExp][] = [
    ['no token', () => [usual(), ''], 2, /^The API token is missing; give --token-file or --token/],
    ['a text that is not a token', () => [usual(), 'secret text'], 2, /^WEIR_TOKEN is not an API token \(wu_…\);/],
    ['two tokens', () => [[...usual(), '--token', 'a', '--token-file', 'b']], 2, /were both given/],
    ['a filter that is not an expression', () => [[...usual(), '--filter', 'body.n >']], 2, /^--filter: /],
    [
      'a missing file',
      () => [[...usual(), '--token-file', 'none']],
      2,
      /^none cannot be read: there is no such file\.$/,
    ],
    [
      'a target that is not a URL',
      () => [['--webhook', webhook.id, '--forward', 'localhost:3000']],
      2,
      /is not an http or https URL/,
    ],
    [
      'an unknown webhook',
      () => [['--webhook', '2f1c0d7e-5a31-4c8e-9b1f-0d6c2a7e4b15', '--forward', target.url]],
      1,
      /^no webhook has the id 2f1c0d7e-5a31-4c8e-9b1f-0d6c2a7e4b15; see: weir webhook list$/,
    ],
    [
      'a server that is not Weir',
      () => [usual(), operator.token, target.url],
      1,
      /answered api\/v1\/webhooks\/.* with 204 and no document of Weir;/,
    ],
  ];
  test.each(wrong)('%s', async (_, given, exitCode, message) => {
    const [args, token, url] = given();
    const ended = await listen(args, token, url).ended;
    expect(ended).toMatchObject({ exitCode, message: expect.stringMatching(message) });
    expect(ended.message).not.toContain('secret text');
    expect(await agents()).toEqual([]);
  });

  test('a scheme whose key is missing or of the wrong kind', async () => {
    const discord = await weir.addWebhook({ signature_scheme: 'discord', secret: null, public_key: 'ab'.repeat(32) });
    await writeFile(join(directory, 'no-key'), 'text');
    const args = ['--webhook', discord.id, '--forward', target.url];
    expect(await listen([...args, '--secret', 's']).ended).toMatchObject({
      exitCode: 2,
      message: 'The requests cannot be signed: the scheme discord of webhook test needs --private-key',
    });
    expect(await listen([...args, '--private-key', 'no-key']).ended).toMatchObject({
      exitCode: 2,
      message: expect.stringContaining('The private key cannot be read'),
    });
  });
});
