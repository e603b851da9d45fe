/** The agent of the README, run like a reader would, and its example of a claim response. */
import { spawn } from 'node:child_process';
import { once } from 'node:events';
import { mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { afterAll, beforeAll, expect, onTestFinished, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../helpers/agents.ts';
import type { TestApp } from '../helpers/app.ts';
import { until } from '../helpers/wait.ts';

const readme = readFileSync(join(import.meta.dirname, '../../README.md'), 'utf8');
const section = readme.slice(readme.indexOf('### An agent of your own'));
const block = (language: string) => section.match(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``))![1]!;

let app: TestApp;
beforeAll(async () => {
  app = await startAgentApp();
});
afterAll(() => app.stop());

/** Runs the program of the README, modified where a test needs a failing handler. */
function run(credential: string, change: (program: string) => string = (program) => program): string[] {
  const folder = mkdtempSync(join(tmpdir(), 'weir-example-'));
  writeFileSync(join(folder, 'agent.mjs'), change(block('js')));
  const child = spawn(process.execPath, [join(folder, 'agent.mjs'), app.url], {
    env: { ...process.env, WEIR_CREDENTIAL: credential },
    stdio: ['ignore', 'pipe', 'inherit'],
  });
  const lines: string[] = [];
  child.stdout.setEncoding('utf8').on('data', (text: string) => lines.push(...text.split('\n').filter(Boolean)));
  onTestFinished(async () => {
    child.kill('SIGKILL');
    if (child.exitCode === null && child.signalCode === null) await once(child, 'exit');
    rmSync(folder, { recursive: true });
  });
  return lines;
}

const states = (agentId: string) =>
  app.database.query<{ state: string; reason: string | null }>({
    text: 'select state, reason from deliveries where agent_id = $1',
    values: [agentId],
  });

test('it handles and acknowledges text and binary bodies', async () => {
  const webhook = await app.addWebhook({ name: 'orders' });
  const agent = await addAgent(app, [webhook]);
  const lines = run(agent.credential);
  const ids = [await send(webhook, '{"a":1}'), await send(webhook, Buffer.from([0, 255, 1]))];
  await until(async () => (await states(agent.id)).filter(({ state }) => state === 'done').length === 2);
  expect(lines.sort()).toEqual([`orders ${ids[0]}: 7 bytes`, `orders ${ids[1]}: 3 bytes`].sort());
});

test('it returns deliveries on which its handler throws, with the reason', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  run(agent.credential, (program) => program.replace('console.log(', 'throw new Error('));
  const id = await send(webhook, 'x');
  await until(async () => (await states(agent.id))[0]?.reason != null);
  expect(await states(agent.id)).toEqual([{ state: 'pending', reason: expect.stringContaining(id) }]);
});

test('it has the stated length', () => {
  expect(block('js').trimEnd().split('\n').length).toBeLessThanOrEqual(40);
});

test('the example of a response has the members of a real one', async () => {
  const webhook = await app.addWebhook();
  const agent = await addAgent(app, [webhook]);
  await send(webhook, '{"order":17}');
  const [real] = await agent.claim();
  const [shown] = JSON.parse(block('json')).deliveries;
  expect(Object.keys(shown)).toEqual(Object.keys(real!));
  expect(Object.keys(shown.event)).toEqual(Object.keys(real!.event));
});
