/** The agents of the guide, run like a reader would, and its example of a claim response. */
import { execFileSync, spawn, spawnSync } from 'node:child_process';
import { once } from 'node:events';
import { mkdirSync, readFileSync, symlinkSync, writeFileSync } from 'node:fs';
import { createServer } from 'node:http';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { addAgent, send, startAgentApp } from '../helpers/agents.ts';
import { freePort, listening } from '../helpers/ports.ts';
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
  let rest = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    // Python writes a line in parts.
    const parts = (rest + text).split('\n');
    rest = parts.pop()!;
    lines.push(...parts.filter(Boolean));
  });
  const ended = once(child, 'close');
  onTestFinished(async () => {
    child.kill('SIGKILL');
    await ended;
  });
  return { lines, errors: () => errors, ended, kill: (signal) => child.kill(signal) };
}

const states = (agentId: string) =>
  app.sql<{ state: string; reason: string | null }>(
    'select state, reason from deliveries where agent_id = $1',
    agentId,
  );
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

describe('the client for Python', () => {
  beforeAll(async () => {
    const answer = await fetch(`${app.url}/clients/weir.py`);
    expect(answer.headers.get('content-type')).toBe('text/x-python; charset=utf-8');
    writeFileSync(join(folder, 'weir.py'), await answer.text());
  });

  /** Runs the program of the guide, with this in place of the line of its handler, and these options of the agent and of `run`. */
  const run = (
    credential: string,
    { work = '', options = '', running = '', url = app.url, under = '', file = 'agent.credential' } = {},
  ) => {
    writeFileSync(join(folder, 'agent.credential'), `${credential}\n`);
    const program = python
      .replace('"http://127.0.0.1:8080"', JSON.stringify(`${url}${under}`))
      .replace(/\n {4}print.*/, (line) => (work === '' ? line : `\n${work}`))
      .replace('"agent.credential"', `${JSON.stringify(file)}${options}`)
      .replace('run(handle', `run(handle${running}`);
    writeFileSync(join(folder, 'agent.py'), `import time\n${program}`);
    return start('python3', ['agent.py'], '');
  };

  test('handles and acknowledges text and binary bodies in their order, and ends on SIGTERM while it waits', async () => {
    const { webhook, agent } = await subscribed();
    const ids = [await send(webhook, '{"a":1}'), await send(webhook, Buffer.from([0, 255, 1]))];
    const { lines, ended, kill } = run(agent.credential);
    await areDone(agent.id, 2);
    kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(lines).toEqual([`orders ${ids[0]} 7 bytes`, `orders ${ids[1]} 3 bytes`]);
  });

  test('ends with the answer of Weir when its credential is refused', async () => {
    const { ended, errors } = run('wa_unknown');
    expect(await ended).toEqual([1, null]);
    expect(errors()).toMatch(/weir\.WeirError: \/session: 401 agent_unauthenticated: /);
  });

  test('returns deliveries on which its handler raises, with the reason', async () => {
    const { webhook, agent } = await subscribed();
    run(agent.credential, { work: '    raise ValueError(event["id"])' });
    const id = await send(webhook, 'x');
    await until(async () => (await states(agent.id))[0]?.reason != null);
    expect(await states(agent.id)).toEqual([{ state: 'pending', reason: `ValueError('${id}')` }]);
  });

  test('attempts again after the delay of Retry, and outlives a handler that exits', async () => {
    const { webhook, agent } = await subscribed();
    const work =
      '    print(event["attempt"], weir.body(event), flush=True)\n' +
      '    if event["attempt"] == 1: raise weir.Retry("busy", delay_seconds=0)\n' +
      '    if weir.body(event) == b"a": raise SystemExit(3)';
    const { lines } = run(agent.credential, { work });
    await send(webhook, 'a');
    await until(async () => (await states(agent.id))[0]?.reason === 'SystemExit(3)');
    await send(webhook, 'b');
    await areDone(agent.id, 1);
    expect(lines.slice(0, 4)).toEqual(["1 b'a'", "2 b'a'", "1 b'b'", "2 b'b'"]);
  });

  test('ends on SIGTERM while Weir is away', async () => {
    const { agent } = await subscribed();
    const { ended, errors, kill } = run(agent.credential, { url: `http://127.0.0.1:${await freePort()}` });
    await until(() => errors().includes('ConnectionRefusedError'));
    kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
  });

  test.each<[string, { options?: string; url?: string; under?: string; file?: string }, RegExp]>([
    ['an option', { options: ', lease_seconds=1' }, /claim: 422 invalid_request: \/lease_seconds: Give at least 5\./],
    ['a URL without a scheme', { url: '127.0.0.1:8080' }, /127\.0\.0\.1:8080 is not an http or https URL/],
    ['a URL that Weir does not have', { under: '/docs' }, /\/session: 404 /],
    ['a missing file', { file: 'missing' }, /FileNotFoundError: .*'missing'/],
  ])('ends with an error that names what is wrong: %s', async (_, given, message) => {
    const { agent } = await subscribed();
    const { ended, errors } = run(agent.credential, given);
    expect(await ended).toEqual([1, null]);
    expect(errors()).toMatch(message);
  });

  test('ends with an error at a URL where something else answers', async () => {
    const port = await listening(createServer((_, response) => response.end('<!doctype html>')));
    const { agent } = await subscribed();
    const { ended, errors } = run(agent.credential, { url: `http://127.0.0.1:${port}` });
    expect(await ended).toEqual([1, null]);
    expect(errors()).toContain('/session: 200 : Weir did not answer this: check the URL');
  });

  test('extends leases while a handler works, and lets it finish after SIGTERM', async () => {
    const { webhook, agent } = await subscribed();
    // Longer than the lease.
    const work = '    print("begun\\n", end="", flush=True)\n    time.sleep(7)';
    const { lines, ended, kill } = run(agent.credential, { work, options: ', lease_seconds=5' });
    await send(webhook, 'x');
    await until(() => lines.length === 1);
    kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect(await states(agent.id)).toEqual([{ state: 'done', reason: null }]);
  });

  test('works on several deliveries at a time, and returns those that have not begun', async () => {
    const { webhook, agent } = await subscribed();
    for (const body of ['a', 'b', 'c']) await send(webhook, body);
    const work = '    print("begun\\n", end="", flush=True)\n    time.sleep(60)';
    const { lines, ended, kill } = run(agent.credential, { work, running: ', concurrency=2, drain_seconds=0' });
    await until(() => lines.length === 2);
    kill('SIGTERM');
    expect(await ended).toEqual([0, null]);
    expect((await states(agent.id)).map(({ state }) => state).sort()).toEqual(['leased', 'leased', 'pending']);
  });

  test('ends without a pause when a claim is interrupted', async () => {
    const { agent } = await subscribed();
    writeFileSync(join(folder, 'agent.credential'), agent.credential);
    const program = `
import threading, time, weir
agent, sleep, slept = weir.Agent("${app.url}", credential_file="agent.credential"), time.sleep, []
def record(seconds):
    slept.append(seconds)
    sleep(seconds)
def stop():
    while getattr(agent._claiming, "sock", None) is None: sleep(0.01)
    sleep(0.1)
    agent.stop()
weir.time.sleep = record
threading.Thread(target=stop).start()
agent.run(print)
print([seconds for seconds in slept if 0 < seconds <= 1])
`;
    writeFileSync(join(folder, 'agent.py'), program);
    const { lines, ended, errors } = start('python3', ['agent.py'], '');
    expect([await ended, errors(), lines]).toEqual([[0, null], '', ['[]']]);
  });

  test('ends when it is stopped while its credential cannot be read', async () => {
    writeFileSync(join(folder, 'agent.credential'), 'wa_x');
    const program = `
import pathlib, threading, weir
agent = weir.Agent("${app.url}", credential_file="agent.credential")
pathlib.Path("agent.credential").unlink()
threading.Timer(0.3, agent.stop).start()
agent.run(print, drain_seconds=0)
print("ended")
`;
    writeFileSync(join(folder, 'agent.py'), program);
    const { lines, ended, errors } = start('python3', ['agent.py'], '');
    expect([await ended, lines]).toEqual([[0, null], ['ended']]);
    expect(errors()).toContain('FileNotFoundError');
  });

  test('opens a new connection when the last one was idle for longer than Weir keeps it', async () => {
    const { agent } = await subscribed();
    writeFileSync(join(folder, 'agent.credential'), agent.credential);
    const program = `
import time, weir
agent, now = weir.Agent("${app.url}", credential_file="agent.credential"), time.monotonic
for idle in (0, 4, 10):
    weir.time.monotonic = lambda: now() + idle
    agent.me()
    print(agent._connections.one.sock.getsockname()[1])
`;
    writeFileSync(join(folder, 'agent.py'), program);
    const { lines, ended, errors } = start('python3', ['agent.py'], '');
    expect([await ended, errors()]).toEqual([[0, null], '']);
    expect(lines).toEqual([lines[0], lines[0], expect.not.stringMatching(`^${lines[0]}$`)]);
  });

  test('has fewer than 200 lines', () => {
    const text = readFileSync(join(root, 'views/clients/weir.py'), 'utf8');
    expect(text.trimEnd().split('\n').length).toBeLessThan(200);
  });
});

test('the example of a response has the members of a real one', async () => {
  const { webhook, agent } = await subscribed();
  await send(webhook, '{"order":17}');
  const [real] = await agent.claim();
  const [shown] = JSON.parse(block('The HTTP contract', 'json')).deliveries;
  expect(Object.keys(shown)).toEqual(Object.keys(real!));
  expect(Object.keys(shown.event)).toEqual(Object.keys(real!.event));
});
