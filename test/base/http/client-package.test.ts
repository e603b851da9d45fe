/** The client package: handed out by the server, installed by npm, run by npx. */
import { execFile } from 'node:child_process';
import { createHash } from 'node:crypto';
import { mkdir, mkdtemp, readFile, writeFile } from 'node:fs/promises';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { describe, expect, test } from 'vitest';
import { release } from '../../../server/base/files/build.ts';
import { ClientPackage } from '../../../server/base/http/client-package.ts';
import { Agent } from '../../../server/deliver/client/index.ts';
import { addAgent, send, startAgentApp, subscribed } from '../../helpers/agents.ts';
import { addPerson } from '../../helpers/people.ts';
import { listening } from '../../helpers/ports.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { shared } from '../../helpers/shared.ts';

const run = promisify(execFile);
/** npm asks no registry: everything that it needs comes from the server. */
const offline = ['--no-audit', '--no-fund', '--loglevel=error'];

const app = shared(startAgentApp);
const folder = temporaryDirectory();

const get = (path: string, init?: RequestInit) => fetch(`${app.url}${path}`, init);
const bytesOf = async (path: string) => Buffer.from(await (await get(path)).arrayBuffer());

/** The path with the hash, as the 404 of another release names it. */
async function currentPath(): Promise<string> {
  const { detail } = (await (await get('/client-0.0.1-abcdef012345.tgz')).json()) as { detail: string };
  return /\/client-\S+\.tgz/.exec(detail)![0];
}

test('every answer of the API names it, and other answers do not', async () => {
  const path = await currentPath();
  for (const known of ['/api/v1/agent/me', '/api/v1/openapi.json', '/api/v2/unknown'])
    expect((await get(known)).headers.get('weir-client'), known).toBe(path);
  for (const known of ['/', '/healthz', '/in/unknown'])
    expect((await get(known)).headers.get('weir-client'), known).toBeNull();
});

test('the pages of a webhook and of an agent show commands that run it', async () => {
  const { install, command } = new ClientPackage('http://127.0.0.1:8080', join(import.meta.dirname, '../../../dist'));
  expect(command).toBe(`npx ${install!.address}`);
  const { cookie } = await addPerson(app, 'operator');
  const { webhook, agent } = await subscribed(app);
  const show = async (path: string) => (await get(path, { headers: { cookie } })).text();
  expect(await show(`/webhooks/${webhook.id}`)).toContain(`${command} \\\n  listen http://127.0.0.1:8080`);
  expect(await show(`/agents/${agent.id}`)).toContain(`${command} \\\n  consume http://127.0.0.1:8080`);
});

test('an agent with the client of another release is logged, and reports an unknown call with the client to install', async () => {
  const { credential, id } = await addAgent(app);
  const headers = { authorization: `Bearer ${credential}`, 'user-agent': 'weir/0.0.1' };
  expect((await get('/api/v1/agent/session', { method: 'POST', headers })).status).toBe(200);
  const lines = app.logLines.map((line) => JSON.parse(line));
  const logged = lines.filter(({ event, agent_id }) => event === 'agent_client_differs' && agent_id === id);
  expect(logged).toMatchObject([{ client_release: '0.0.1' }]);

  const file = 'client-9.1.0-5f1c0e9a7b3d.tgz';
  const server = createServer((_request, response) => response.writeHead(404, { 'weir-client': `/${file}` }).end('{}'));
  const url = `http://127.0.0.1:${await listening(server)}`;
  const fix = `install the client of the server with npm install ${url}/${file}.`;
  await expect(new Agent({ url, credential }).run(() => {}, { max: 1 })).rejects.toThrow(fix);
});

describe('the package', () => {
  test('is named by its release and a hash of its bytes, and cached permanently', async () => {
    const path = await currentPath();
    const answer = await get(path);
    const bytes = Buffer.from(await answer.arrayBuffer());
    const hash = createHash('sha256').update(bytes).digest('hex').slice(0, 12);
    expect(path).toBe(`/client-${release()}-${hash}.tgz`);
    expect(answer.status).toBe(200);
    expect(answer.headers.get('cache-control')).toBe('public, max-age=31536000, immutable');
    expect(bytes.length).toBeLessThan(300_000);
    expect(await bytesOf('/client.tgz')).toEqual(bytes);
  });

  test('without a release is asked for again each time, and 304 when the client has it', async () => {
    const answer = await get('/client.tgz');
    expect(answer.headers.get('cache-control')).toBe('no-cache');
    const known = await get('/client.tgz', { headers: { 'if-none-match': answer.headers.get('etag')! } });
    expect(known.status).toBe(304);
  });

  test('of another release is not found, and the 404 names the current one', async () => {
    const answer = await get('/client-0.0.1-abcdef012345.tgz');
    expect(answer.status).toBe(404);
    expect(await answer.json()).toMatchObject({
      code: 'not_found',
      detail: expect.stringContaining(await currentPath()),
    });
    expect((await get(await currentPath(), { method: 'POST' })).status).toBe(405);
  });
});

/** Programs of TypeScript 4.9 and later compile against the types, whichever way they resolve packages. */
test.each([
  ['oldest', 'node', 'es2022', 'agent.ts'],
  ['current', 'nodenext', 'nodenext', 'agent.mts'],
])('its types compile with the %s TypeScript, moduleResolution %s', async (age, resolution, module, file) => {
  const project = await mkdtemp(join(folder, 'types-'));
  const weir = join(project, 'node_modules/weir');
  await mkdir(weir, { recursive: true });
  await writeFile(join(project, 'client.tgz'), await bytesOf('/client.tgz'));
  await run('tar', ['xzf', '../../client.tgz', '--strip-components=1'], { cwd: weir });
  await writeFile(join(project, file), agentInTypeScript);
  const compiler = age === 'oldest' ? '@tsd/typescript/typescript/lib/tsc.js' : 'typescript/bin/tsc';
  const types = ['--types', 'node', '--typeRoots', join(modules, '@types')];
  const options = ['--noEmit', '--strict', '--target', 'es2022', '--module', module, '--moduleResolution', resolution];
  const { stdout } = await run(process.execPath, [join(modules, compiler), ...options, ...types, file], {
    cwd: project,
  });
  expect(stdout).toBe('');
});

/** What `weir --version` of the server prints. */
async function versionOfBuild(): Promise<string> {
  const weir = join(import.meta.dirname, '../../../dist/server/cli/weir.js');
  const { stdout } = await run(process.execPath, [weir, '--version']);
  expect(stdout).toMatch(new RegExp(`^${release()} \\(([0-9a-f]{12}|sources-[0-9a-f]{12})\\)\n$`));
  return stdout;
}

const modules = join(import.meta.dirname, '../../../node_modules');
const agentInTypeScript = `import { Agent, type Delivery, WeirError } from 'weir/client';
const agent = new Agent({ url: 'http://127.0.0.1:8080', credential: 'wa_' });
const text = (delivery: Delivery): string => delivery.event.text();
export async function work(): Promise<void> {
  for await (const delivery of agent.deliveries({ concurrency: 2 }))
    if (text(delivery) !== '') await delivery.ack();
  // @ts-expect-error: the types are known, so a wrong member is an error.
  agent.nothing();
  throw new Error(WeirError.name);
}
`;

test('an agent installs it from the server, and its library and its command line work', async () => {
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  await run('npm', ['install', ...offline, `${app.url}${await currentPath()}`], { cwd: folder });
  const { webhook, agent } = await subscribed(app);
  await send(webhook, '{"order":17}');
  await writeFile(
    join(folder, 'agent.js'),
    `import { Agent } from 'weir/client';
     const agent = new Agent({ url: ${JSON.stringify(app.url)}, credential: ${JSON.stringify(agent.credential)} });
     for await (const delivery of agent.deliveries()) {
       console.log(delivery.event.text());
       await delivery.ack();
       break;
     }
`,
  );
  expect((await run(process.execPath, ['agent.js'], { cwd: folder })).stdout).toBe('{"order":17}\n');
  const { stdout: version } = await run('npx', ['--no', '--', 'weir', '--version'], { cwd: folder });
  expect(version).toBe(await versionOfBuild());
  await send(webhook, '{"order":18}');
  await writeFile(join(folder, 'credential'), agent.credential, { mode: 0o600 });
  const words = ['--no', '--', 'weir', 'consume', app.url, '--credential-file', 'credential', '--once', '--json'];
  const { stdout } = await run('npx', words, { cwd: folder });
  expect(stdout.trimEnd().split('\n')).toHaveLength(1);
  // A clean installation checks the hash that npm wrote into the lock file.
  await run('npm', ['ci', ...offline], { cwd: folder });
  const lock = JSON.parse(await readFile(join(folder, 'package-lock.json'), 'utf8'));
  const integrity = `sha512-${createHash('sha512')
    .update(await bytesOf('/client.tgz'))
    .digest('base64')}`;
  expect(lock.packages['node_modules/weir']).toMatchObject({ version: release(), integrity });
});
