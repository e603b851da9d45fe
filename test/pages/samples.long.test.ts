/** The samples of the pages, run against a real server: “Send it again with curl” for each kind of scheme, and those of the page of an agent. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { isDefinable, type SchemeDefinition } from '../../server/model/signatures/definition.ts';
import { isAsymmetric } from '../../server/model/signatures/keys.ts';
import { presets } from '../../server/model/signatures/presets.ts';
import { signRequest } from '../../server/model/signatures/sign.ts';
import { generateSecret } from '../../server/model/webhook-schemes.ts';
import { agentSamples } from '../../server/pages/samples/samples.ts';
import { addAgent, send } from '../helpers/agents.ts';
import { startPagesApp } from '../helpers/browser.ts';
import { addPerson } from '../helpers/people.ts';
import { temporaryDirectory } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';

const run = promisify(execFile);
const app = shared(startPagesApp);
const operator = shared(() => addPerson(app, 'operator'));

interface Signing {
  /** Members of the webhook. */
  fields: Record<string, unknown>;
  definition: SchemeDefinition;
}

/** What two presets of one kind have in common: all that changes the steps of the command. */
function kindOf({
  algorithm,
  header,
  items,
  pair,
  prefix,
  encoding,
  content,
  timestamp,
  secret,
  id,
}: SchemeDefinition) {
  const source = (from: string | undefined) => from?.split(':')[0];
  const time = timestamp && [source(timestamp.from), timestamp.unit];
  const marks = [header !== undefined, items, pair, prefix !== undefined];
  return JSON.stringify([algorithm, ...marks, encoding, content, time, secret, source(id)]);
}

/** One preset of each kind. */
const kinds = new Map<string, [string, Signing]>();
for (const { name, definition } of presets) {
  // The other schemes have no command.
  if (!isDefinable(definition.algorithm) || isAsymmetric(definition.algorithm)) continue;
  if (definition.timestamp?.from.startsWith('json:')) continue;
  const fields = { signature_scheme: name, ...(name === 'token' ? { signature_header: 'x-own' } : {}) };
  const header = { token: 'x-own', sha256: 'x-hub-signature-256' }[name];
  const signed = header === undefined ? definition : { ...definition, header };
  if (!kinds.has(kindOf(definition))) kinds.set(kindOf(definition), [name, { fields, definition: signed }]);
}
const custom: SchemeDefinition = {
  algorithm: 'hmac-sha512',
  header: 'x-own',
  prefix: `it's $HOME `,
  content: 'a\n`b`{method}:{timestamp}x{body}!',
  timestamp: { from: 'header:x-time', unit: 's', tolerance: 60 },
};
kinds.set('custom', [
  'a custom one whose texts a shell would expand',
  { fields: { signature_scheme: 'custom', scheme_definition: custom }, definition: custom },
]);

/** Quotes, line ends and characters that shells expand. */
const body = Buffer.from('{"note": "it\'s Größe, $(id) `id` \\\\ !x",\n "n": 1}\n');

/** The command on the page of the newest event of a webhook. */
async function commandOf(webhookId: string) {
  const [event] = (await operator.api('GET', `/api/v1/events?webhook_id=${webhookId}`)).body.items;
  const page = (await operator.browse('GET', `/events/${event.id}`)).text;
  const [, command] = /aria-label="The command"><code>([^<]*)</.exec(page)!;
  const code = command!
    .replaceAll('&#39;', "'")
    .replaceAll('&quot;', '"')
    .replaceAll('&lt;', '<')
    .replaceAll('&gt;', '>');
  return { event, code: code.replaceAll('&amp;', '&') };
}

test.each([...kinds.values()])('the command for the scheme %s is accepted', async (_, { fields, definition }) => {
  const secret = generateSecret(definition);
  const name = JSON.stringify(fields).slice(0, 60);
  const webhook = (await operator.api('POST', '/api/v1/webhooks', { name, ...fields, secret })).body;
  const contentType = 'application/json; charset=utf-8';
  const request = { body, method: 'POST', url: webhook.url, id: 'evt-17', timeMs: Date.now() };
  const signed = signRequest(definition, Buffer.from(secret), request);
  const first = await fetch(webhook.url, {
    method: 'POST',
    headers: { 'content-type': contentType, 'x-kind': `it's "new"`, ...signed.headers },
    body: new Uint8Array(signed.body),
  });
  expect(first.headers.get('x-weir-event-id')).not.toBeNull();

  const { event, code } = await commandOf(webhook.id);
  expect(code).not.toContain(secret);
  // Its scheme may answer with another body than the id.
  const { stdout } = await run('bash', ['-c', `${code} -sSi`], { env: { ...process.env, WEIR_SECRET: secret } });
  const newId = /^x-weir-event-id: (.*)\r$/m.exec(stdout)?.[1];
  const again = (await operator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`)).body.items;
  expect(again.map(({ id }: { id: string }) => id)).toEqual([newId, event.id]);
  const stored = (await operator.api('GET', `/api/v1/events/${again[0].id}`)).body;
  expect(stored).toMatchObject({ content_type: contentType, headers: { 'x-kind': `it's "new"` } });
  const text = (await operator.api('GET', `/api/v1/events/${again[0].id}/body`)).text;
  expect(text).toBe(body.toString());
});

test('a request again is not a duplicate of the first', async () => {
  const input = { name: 'once', secret: 'a secret', dedupe_header: 'x-delivery' };
  const webhook = (await operator.api('POST', '/api/v1/webhooks', input)).body;
  const { headers } = signRequest(presets[0]!.definition, Buffer.from('a secret'), {
    body: Buffer.from('{}'),
    method: 'POST',
    url: webhook.url,
    id: '',
    timeMs: 0,
  });
  await fetch(webhook.url, { method: 'POST', headers: { ...headers, 'x-delivery': '17' }, body: '{}' });
  const { code } = await commandOf(webhook.id);
  const { stdout } = await run('bash', ['-c', `${code} -sS`], { env: { ...process.env, WEIR_SECRET: 'a secret' } });
  expect(JSON.parse(stdout)).not.toHaveProperty('duplicate');
});

const directory = temporaryDirectory();

test.each([
  ['curl', 'sh', 'sample.sh'],
  ['Python', 'python3', 'sample.py'],
])('the sample for consuming in %s claims and acknowledges', async (language, command, file) => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook, '{"order":17}');
  const { code } = agentSamples(app.url, { command: 'weir', install: null }).find(
    (sample) => sample.language === language,
  )!;
  await writeFile(join(directory, file), code);
  const env = { ...process.env, WEIR_CREDENTIAL: agent.credential };
  const { stdout } = await run(command, [file], { cwd: directory, env });
  expect(stdout).toContain(event);
  const [delivery] = (await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}`)).body.items;
  expect(delivery).toMatchObject({ event_id: event, state: 'done' });
});

test('the sample for consuming in Node.js works with the client library until it is stopped', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook, '{"order":17}');
  const { code } = agentSamples(app.url, { command: 'weir', install: null }).find(
    (sample) => sample.language === 'Node.js',
  )!;
  await mkdir(join(directory, 'node_modules'));
  await symlink(fileURLToPath(new URL('../../dist/client', import.meta.url)), join(directory, 'node_modules/weir'));
  await writeFile(join(directory, 'agent.mjs'), code);
  const child = spawn(process.execPath, ['agent.mjs'], {
    cwd: directory,
    env: { ...process.env, WEIR_CREDENTIAL: agent.credential },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const [out] = (await once(child.stdout!, 'data')) as [Buffer];
  expect(String(out)).toContain(event);
  const exited = once(child, 'exit');
  child.kill('SIGTERM');
  expect(await exited).toEqual([0, null]);
  const [delivery] = (await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}`)).body.items;
  expect(delivery).toMatchObject({ event_id: event, state: 'done' });
});

test('the page of an agent has the configuration of an AI agent', async () => {
  const agent = await addAgent(app);
  const { text } = await operator.browse('GET', `/agents/${agent.id}`);
  const [, shown] =
    /aria-label="Copy the code in AI agent \(MCP\)" hidden><\/button><pre tabindex="0"><code>([^<]*)</.exec(text)!;
  const { mcpServers } = JSON.parse(shown!.replaceAll('&quot;', '"'));
  expect(mcpServers.weir).toMatchObject({ type: 'http', url: `${app.settings.FRONTEND_PUBLIC_API_URL}/mcp` });
});
