/** The agents of the guide, run like a reader would, and its example of a claim response. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../helpers/agents.ts';
import { temporaryDirectory } from '../helpers/settings.ts';
import { shared } from '../helpers/shared.ts';
import { until } from '../helpers/wait.ts';

const root = join(import.meta.dirname, '../..');
const guide = readFileSync(join(root, 'views/docs/agents.md'), 'utf8');

/** The first block of code in this language below a heading. */
function block(heading: string, language: string): string {
  const section = guide.slice(guide.indexOf(`\n## ${heading}\n`));
  return section.match(new RegExp(`\`\`\`${language}\\n([\\s\\S]*?)\`\`\``))![1]!;
}

const fiveMinutes = block('A running agent in five minutes', 'js');
const loop = block('The client library', 'js');
const python = block('The HTTP contract', 'python');

const app = shared(startAgentApp);
const folder = temporaryDirectory();

interface Started {
  lines: string[];
  errors: () => string;
  ended: Promise<unknown[]>;
  kill: (signal: NodeJS.Signals) => void;
}

function start(program: string, args: string[], credential: string): Started {
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...process.env, WEIR_CREDENTIAL: credential },
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  let errors = '';
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    errors += text;
  });
  child.stdout.setEncoding('utf8').on('data', (text: string) => lines.push(...text.split('\n').filter(Boolean)));
  const ended = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { lines, errors: () => errors, ended, kill: (signal) => child.kill(signal) };
}

const states = (agentId: string) =>
  app.database.query<{ state: string; reason: string | null }>({
    text: 'select state, reason from deliveries where agent_id = $1',
    values: [agentId],
  });
const areDone = (agentId: string, count: number) =>
  until(async () => (await states(agentId)).filter(({ state }) => state === 'done').length === count);

async function subscribed() {
  const webhook = await app.addWebhook({ name: 'orders' });
  return { webhook, agent: await addAgent(app, [webhook]) };
}

describe('the client library, installed from the package that the build made', () => {
  beforeAll(() => {
    const npm = (...args: string[]) => execFileSync('npm', args, { cwd: folder, encoding: 'utf8' }).trim();
    writeFileSync(join(folder, 'package.json'), '{ "private": true }');
    const file = npm('pack', '--silent', join(root, 'dist/client'));
    npm('install', '--offline', '--no-audit', '--no-fund', `./${file}`);
  });

  test('has types for the examples', () => {
    mkdirSync(join(folder, 'node_modules/@types'));
    symlinkSync(join(root, 'node_modules/@types/node'), join(folder, 'node_modules/@types/node'));
    writeFileSync(join(folder, 'five.mjs'), fiveMinutes);
    writeFileSync(join(folder, 'loop.mjs'), loop);
    writeFileSync(
      join(folder, 'types.mts'),
      `import { Agent, type Delivery } from 'weir/client';
       export const settle = async (delivery: Delivery): Promise<'done' | 'gone'> => delivery.ack();
       // @ts-expect-error: a credential is required
       new Agent({ url: 'http://127.0.0.1:8080' });
       // @ts-expect-error: the option does not exist
       new Agent({ url: 'http://127.0.0.1:8080', credential: 'wa_' }).run(settle, { parallel: 4 });`,
    );
    const compiler = join(root, 'node_modules/typescript/bin/tsc');
    const options = '--noEmit --strict --checkJs --module node16 --target es2022 --types node'.split(' ');
    const { stdout } = spawnSync(process.execPath, [compiler, ...options, 'five.mjs', 'loop.mjs', 'types.mts'], {
      cwd: folder,
      encoding: 'utf8',
    });
    expect(stdout).toBe('');
  });

  test('the agent of five minutes acknowledges text and bytes, and ends cleanly on Ctrl-C', async () => {
    const { webhook, agent } = await subscribed();
    writeFileSync(join(folder, 'worker.credential'), `${agent.credential}\n`, { mode: 0o600 });
    writeFileSync(join(folder, 'agent.mjs'), fiveMinutes.replace('http://127.0.0.1:8080', app.url));
    const { lines, ended, kill } = start(process.execPath, ['agent.mjs'], '');
    const ids = [await send(webhook, '{"a":1}'), await send(webhook, Buffer.from([0, 255, 1]))];
    await areDone(agent.id, 2);
    kill('SIGINT');
    expect(await ended).toEqual([0, null]);
    expect(lines.sort()).toEqual(
      [`orders ${ids[0]}: 7 bytes, attempt 1`, `orders ${ids[1]}: 3 bytes, attempt 1`].sort(),
    );
  });

  test('the loop settles each delivery, and ends after max', async () => {
    const { webhook, agent } = await subscribed();
    await send(webhook, '{"a":1}');
    await send(webhook, '{"b":2}');
    writeFileSync(join(folder, 'each.mjs'), loop.replace('http://127.0.0.1:8080', app.url));
    const { lines, ended } = start(process.execPath, ['each.mjs'], agent.credential);
    expect(await ended).toEqual([0, null]);
    await areDone(agent.id, 2);
    expect(lines[0]).toMatch(/^test \S+ has 2 pending deliveries$/);
    expect(lines).toHaveLength(3);
  });
});

describe('the agent in Python', () => {
  const run = (credential: string, program = python) => {
    writeFileSync(join(folder, 'agent.py'), program);
    return start('python3', ['agent.py', app.url], credential);
  };

  test('handles and acknowledges text and binary bodies', async () => {
    const { webhook, agent } = await subscribed();
    const { lines } = run(agent.credential);
    const ids = [await send(webhook, '{"a":1}'), await send(webhook, Buffer.from([0, 255, 1]))];
    await areDone(agent.id, 2);
    expect(lines.sort()).toEqual([`orders ${ids[0]}: 7 bytes`, `orders ${ids[1]}: 3 bytes`].sort());
  });

  test('ends with the answer of Weir when its credential is empty', async () => {
    const { ended, errors } = run('');
    expect(await ended).toEqual([1, null]);
    expect(errors()).toMatch(/^\/session: 401 \{.*"code":"agent_unauthenticated"/);
  });

  test('returns deliveries on which its handler raises, with the reason', async () => {
    const { webhook, agent } = await subscribed();
    run(agent.credential, python.replace('\n    print(f', "\n    raise ValueError(event['id'])\n    print(f"));
    const id = await send(webhook, 'x');
    await until(async () => (await states(agent.id))[0]?.reason != null);
    expect(await states(agent.id)).toEqual([{ state: 'pending', reason: expect.stringContaining(id) }]);
  });
});

test('the agent in Python has at most 40 lines', () => {
  expect(python.trimEnd().split('\n').length).toBeLessThanOrEqual(40);
});

test('the example of a response has the members of a real one', async () => {
  const { webhook, agent } = await subscribed();
  await send(webhook, '{"order":17}');
  const [real] = await agent.claim();
  const [shown] = JSON.parse(block('The HTTP contract', 'json')).deliveries;
  expect(Object.keys(shown)).toEqual(Object.keys(real!));
  expect(Object.keys(shown.event)).toEqual(Object.keys(real!.event));
});
