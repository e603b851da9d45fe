/** The samples on the page of an agent, run against a real server. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdir, symlink, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { expect, test } from 'vitest';
import { agentSamples } from '../../server/pages/samples/samples.ts';
import { addAgent, send, startAgentApp } from '../helpers/agents.ts';
import { addPerson } from '../helpers/people.ts';
import { temporaryDirectory } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';

const run = promisify(execFile);
const app = shared(startAgentApp);
const operator = shared(() => addPerson(app, 'operator'));
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
