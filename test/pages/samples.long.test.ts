/**
 * The samples that the pages show: curl, Node.js and Python are run against a real server. Go and PHP are run where they are installed,
 * and otherwise compared with a signature that the server's own signer computes.
 */
import { execFile, execFileSync, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, mkdtemp, rm, symlink, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { afterAll, beforeAll, describe, expect, test } from 'vitest';
import type { SchemeDefinition } from '../../server/model/signatures/definition.ts';
import { presets } from '../../server/model/signatures/presets.ts';
import { consumeSamples } from '../../server/pages/samples/consume.ts';
import { planOf } from '../../server/pages/samples/plan.ts';
import { sendSamples } from '../../server/pages/samples/send.ts';
import { addAgent, send, startAgentApp } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';
import { addPerson, type TestPerson } from '../helpers/people.ts';

const run = promisify(execFile);
const BODY = '{"note":"it\'s Größe","n":1}';
const commands: Record<string, [command: string, file: string]> = {
  curl: ['sh', 'sample.sh'],
  'Node.js': [process.execPath, 'sample.mjs'],
  Python: ['python3', 'sample.py'],
  Go: ['go', 'sample.go'],
  PHP: ['php', 'sample.php'],
};

let app: TestApp;
let operator: TestPerson;
let directory: string;
beforeAll(async () => {
  app = await startAgentApp();
  operator = await addPerson(app, 'operator');
  directory = await mkdtemp(join(tmpdir(), 'weir-samples-'));
});
afterAll(async () => {
  await rm(directory, { recursive: true });
  await app.stop();
});

async function execute(language: string, code: string, env: Record<string, string>): Promise<string> {
  const [command, file] = commands[language]!;
  await writeFile(join(directory, file), code);
  const { stdout } = await run(command, [...(language === 'Go' ? ['run'] : []), file], {
    cwd: directory,
    env: { ...process.env, ...env },
  });
  return stdout;
}

function isInstalled(command: string): boolean {
  try {
    execFileSync('which', [command]);
    return true;
  } catch {
    return false;
  }
}

const base64 = `whsec_${Buffer.alloc(24, 7).toString('base64')}`;
const schemes: [string, object, string | null, SchemeDefinition | 'none'][] = [
  ['sha256', {}, 'a secret', { algorithm: 'hmac-sha256', header: 'x-hub-signature-256', prefix: 'sha256=' }],
  ['no secret', {}, null, 'none'],
  ...(['stripe', 'slack', 'shopify', 'svix', 'paddle'] as const).map(
    (name): [string, object, string, SchemeDefinition] => [
      name,
      { signature_scheme: name },
      name === 'svix' ? base64 : 'a secret',
      presets.find((preset) => preset.name === name)!.definition,
    ],
  ),
];

describe.each(schemes)('the samples for sending, scheme %s,', (_, fields, secret, definition) => {
  test.each(['curl', 'Node.js', 'Python', ...['Go', 'PHP'].filter((language) => isInstalled(commands[language]![0]))])(
    'in %s are accepted',
    async (language) => {
      const webhook = await app.addWebhook({ ...fields, secret });
      const { code } = sendSamples(webhook.url, BODY, definition).find((sample) => sample.language === language)!;
      const out = await execute(language, code, { WEIR_SECRET: secret ?? '' });
      const [event] = (await operator.api('GET', `/api/v1/events?webhook_id=${webhook.id}`)).body.items;
      expect(out).toContain(event.id);
      expect((await operator.api('GET', `/api/v1/events/${event.id}/body`)).text).toBe(BODY);
    },
  );
});

test('every scheme that signs the body, a time and an id has samples in every language; the others have the command', () => {
  const without = presets.filter(
    ({ definition }) => sendSamples('http://x/in/1', BODY, { header: 'x-own', ...definition }).length < 5,
  );
  const unsupported = ({ algorithm, content = '', encoding, header, timestamp, id }: SchemeDefinition) =>
    !algorithm.startsWith('hmac-') ||
    header === undefined ||
    encoding === 'base64url' ||
    /\{url\}|\{method\}|[\n\t]/.test(content) ||
    timestamp?.from.startsWith('json:') ||
    id?.startsWith('json:');
  expect(without.filter(({ definition }) => !unsupported(definition)).map(({ name }) => name)).toEqual([]);
  expect(presets.length - without.length).toBeGreaterThan(100);
});

/** Where Go and PHP are not installed: the samples sign the parts that the plan names, which the samples above prove. */
test.each(schemes)(
  'the samples in Go and PHP sign the same parts as the others: %s',
  (_, _fields, _secret, definition) => {
    const plan = planOf('http://x/in/1', BODY, definition)!;
    const samples = sendSamples('http://x/in/1', BODY, definition);
    const [go, php] = ['Go', 'PHP'].map((language) => samples.find((sample) => sample.language === language)!.code);
    const parts = (operator: string, sign: string, quote: string) =>
      plan.content.map((part) => ('name' in part ? sign + part.name : quote + part.text + quote)).join(operator);
    if (plan.content.length === 0) return expect(go + php!).not.toMatch(/hmac/);
    expect(go).toContain(`mac.Write([]byte(${parts(' + ', '', '"')}))`);
    expect(php).toContain(`hash_hmac('${plan.hash}', ${parts(' . ', '$', "'")}, $key`);
    for (const { name } of plan.headers) for (const code of [go, php]) expect(code).toContain(name);
  },
);

test.each(['curl', 'Python'])('the sample for consuming in %s claims and acknowledges', async (language) => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook, '{"order":17}');
  const { code } = consumeSamples(app.url, null).find((sample) => sample.language === language)!;
  const out = await execute(language, code, { WEIR_CREDENTIAL: agent.credential });
  expect(out).toContain(event);
  const [delivery] = (await operator.api('GET', `/api/v1/deliveries?agent_id=${agent.id}`)).body.items;
  expect(delivery).toMatchObject({ event_id: event, state: 'done' });
});

test('the sample for consuming in Node.js works with the client library until it is stopped', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  const event = await send(webhook, '{"order":17}');
  const { code } = consumeSamples(app.url, null).find((sample) => sample.language === 'Node.js')!;
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
  const [, shown] = /aria-label="Code in AI agent \(MCP\)"><code>([^<]*)</.exec(text)!;
  const { mcpServers } = JSON.parse(shown!.replaceAll('&quot;', '"'));
  expect(mcpServers.weir).toMatchObject({ type: 'http', url: `${app.settings.FRONTEND_PUBLIC_API_URL}/mcp` });
});
