/** Commands on the machine of Weir: over the socket in DATA_DIR, as the local administrator. */
import {
  chmodSync,
  existsSync,
  lstatSync,
  mkdirSync,
  readlinkSync,
  renameSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs';
import { type IncomingMessage, request } from 'node:http';
import { userInfo } from 'node:os';
import { join } from 'node:path';
import { text } from 'node:stream/consumers';
import { setTimeout } from 'node:timers/promises';
import { beforeAll, expect, onTestFinished, test } from 'vitest';
import { commands } from '../../../server/cli/commands.ts';
import { RunFolder } from '../../../server/operate/primary/run-folder.ts';
import { storeEvents } from '../../helpers/agents.ts';
import { startTestApp } from '../../helpers/app.ts';
import { runCommands, weir, weirJson } from '../../helpers/command.ts';
import { addPerson, request as fetchJson } from '../../helpers/people.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { ofTest, shared } from '../../helpers/shared.ts';

const app = shared(startTestApp);
let socket: string;
beforeAll(async () => {
  socket = join(app.settings.DATA_DIR, 'weir.sock');
});

/** A request on the socket. The answer is read by the caller. */
function open(method: string, path: string, headers: Record<string, string> = {}, body = ''): Promise<IncomingMessage> {
  return new Promise((resolve, reject) => {
    request({ socketPath: socket, method, path, headers, agent: false }, resolve).on('error', reject).end(body);
  });
}

async function ask(...given: Parameters<typeof open>) {
  const response = await open(...given);
  const whole = await text(response);
  return { status: response.statusCode, headers: response.headers, body: whole === '' ? null : JSON.parse(whole) };
}

const lastEntry = async () => (await weirJson(app, 'audit', 'list', '--limit', '1')).items[0];
const log = () => {};
const quiet = Object.assign(log, { enabled: () => true, dropped: () => 0 });

test('a change is recorded as that of a command, with the user of the operating system', async () => {
  await weirJson(app, 'agent', 'add', '--name', 'by a command');
  expect(await lastEntry()).toMatchObject({
    action: 'agent.create',
    actor: { kind: 'command', id: null, name: userInfo().username, address: null, token_id: null },
  });
});

test.each([
  ['äda', '%C3%A4da'],
  ['unknown', '%00'],
  ['unknown', '%E'],
  ['unknown', 'a'.repeat(101)],
])('the user %j is stated as %j', async (name, field) => {
  const headers = { 'weir-command-user': field, 'content-type': 'application/json' };
  expect((await ask('POST', '/api/v1/agents', headers, `{"name":"${crypto.randomUUID()}"}`)).status).toBe(201);
  expect((await lastEntry()).actor).toMatchObject({ kind: 'command', name });
});

test('the field of the user makes no client of the port an administrator', async () => {
  const headers = { 'weir-command-user': 'root' };
  const { status, body } = await fetchJson(`${app.url}/api/v1/audit`, 'GET', undefined, headers);
  expect([status, body.code]).toEqual([401, 'unauthenticated']);
});

test('cookies, tokens, forwarded addresses and origins have no meaning on the socket', async () => {
  const viewer = await addPerson(app, 'viewer');
  const { status, headers } = await ask('GET', '/api/v1/audit', {
    cookie: viewer.cookie,
    authorization: `Bearer ${viewer.token}`,
    'x-forwarded-for': '192.0.2.1',
    origin: 'https://evil.example',
  });
  expect(status).toBe(200);
  expect(Object.keys(headers).filter((name) => name.startsWith('access-control'))).toEqual([]);
});

test.each([
  ['GET', '/'],
  ['GET', '/sign-in'],
  ['GET', '/assets/style.css'],
  ['GET', '/healthz'],
  ['POST', '/in/2f1c0d7e-0000-4000-8000-000000000000'],
  ['POST', '/mcp'],
  ['POST', '/api/v1/session'],
  ['GET', '/api/v1/account'],
  ['POST', '/api/v1/agent/session'],
  ['POST', '/api/v1/agent/deliveries/claim'],
  ['OPTIONS', '/api/v1/nothing'],
])('%s %s is not served on the socket', async (method, path) => {
  const { status, body } = await ask(method, path);
  expect([status, body.code]).toEqual([404, 'not_found']);
});

test('createToken names the user that owns it, on the socket only', async () => {
  const { id, token } = await addPerson(app, 'operator');
  const json = { 'content-type': 'application/json' };
  const make = (input: object) => ask('POST', '/api/v1/tokens', json, JSON.stringify({ name: 'ci', ...input }));
  expect((await make({ user_id: id })).body).toMatchObject({ user_id: id, role: 'operator' });
  expect((await make({ user_id: id, role: 'administrator' })).body.errors).toMatchObject([{ pointer: '/role' }]);
  expect((await make({})).body.code).toBe('user_unknown');
  const over = await fetchJson(
    `${app.url}/api/v1/tokens`,
    'POST',
    { name: 'ci', user_id: id },
    { authorization: `Bearer ${token}` },
  );
  expect([over.status, over.body.errors]).toMatchObject([422, [{ pointer: '/user_id' }]]);
});

test('exports in progress have no limit on the socket', async () => {
  const webhook = await app.addWebhook();
  await storeEvents(app.database, webhook.id, 3, Date.now() - 1_000);
  const exports = await Promise.all(Array.from({ length: 10 }, () => open('GET', '/api/v1/events/export')));
  expect(new Set(exports.map(({ statusCode }) => statusCode))).toEqual(new Set([200]));
  for (const one of exports) expect((await text(one)).trimEnd().split('\n')).toHaveLength(3);
});

test('where nothing serves, a command ends with 3 and says where it looked', async () => {
  const directory = temporaryDirectory();
  const { code, out, err } = await runCommands(commands, directory, { DATA_DIR: 'data' }, ['webhook', 'list']);
  expect([code, out]).toEqual([3, '']);
  expect(err).toMatch(/^weir: no Weir serves in \S+\/data: set DATA_DIR, .* start\n$/);
  expect(err).toContain(join(directory, 'data'));
  expect(existsSync(join(directory, 'data'))).toBe(false);
  const json = await runCommands(commands, directory, { DATA_DIR: 'data' }, ['webhook', 'list', '--json']);
  expect([json.code, JSON.parse(json.err)]).toMatchObject([3, { title: 'Command failed' }]);
});

test('a command waits until another process takes over for one that was killed', async () => {
  const target = readlinkSync(socket);
  const killed = join(app.settings.DATA_DIR, 'run', '1.sock');
  const pointAt = (path: string) => {
    symlinkSync(path, `${socket}.test`);
    renameSync(`${socket}.test`, socket);
  };
  for (const prepare of [() => {}, () => writeFileSync(killed, '')]) {
    prepare();
    pointAt(killed);
    let isDone = false;
    const listed = weir(app, 'agent', 'list').finally(() => {
      isDone = true;
    });
    await setTimeout(200);
    expect(isDone).toBe(false);
    pointAt(target);
    expect((await listed).code).toBe(0);
  }
});

test.each([
  ['a DATA_DIR whose sockets would have paths of more than 107 bytes', 'x'.repeat(90)],
  ['a DATA_DIR of 107 bytes and more', 'x'.repeat(120)],
])('%s gets a short folder, which DATA_DIR records', async (_what, name) => {
  const dataDir = join(temporaryDirectory(), name);
  mkdirSync(dataDir);
  const long = await startTestApp({ DATA_DIR: dataDir });
  const short = readlinkSync(join(dataDir, 'run'));
  expect(short.length).toBeLessThan(60);
  expect(lstatSync(short).mode & 0o777).toBe(0o700);
  expect((await weir(long, 'webhook', 'list')).code).toBe(0);
  await long.stop();
  expect([existsSync(short), existsSync(join(dataDir, 'run')), existsSync(join(dataDir, 'weir.sock'))]).toEqual([
    false,
    false,
    false,
  ]);
});

test('a DATA_DIR behind a link, as each container of several has it', async () => {
  const directory = temporaryDirectory();
  mkdirSync(join(directory, 'container-1'));
  symlinkSync('container-1', join(directory, 'weir'));
  const linked = await ofTest(startTestApp({ DATA_DIR: join(directory, 'weir') }));
  expect((await weir(linked, 'webhook', 'list')).code).toBe(0);
});

test('what an earlier Weir left is removed at the start, and its folder is used again', () => {
  const dataDir = temporaryDirectory();
  const earlier = new RunFolder(dataDir, null, quiet);
  const socketOf = (pid: number) => join(earlier.path!, `${pid}.sock`);
  for (const pid of [1, 2]) writeFileSync(socketOf(pid), '');
  earlier.point([1, 2, 3]);
  // The newest that listens.
  expect(readlinkSync(join(dataDir, 'weir.sock'))).toBe(socketOf(2));
  earlier.ended(2);
  earlier.point([1]);
  expect(readlinkSync(join(dataDir, 'weir.sock'))).toBe(socketOf(1));
  const next = new RunFolder(dataDir, null, quiet);
  expect([next.path, existsSync(socketOf(1)), existsSync(join(dataDir, 'weir.sock'))]).toEqual([
    earlier.path,
    false,
    false,
  ]);
  next.close();
});

test('a recorded folder that another user can enter is not used', () => {
  const dataDir = temporaryDirectory();
  const open = temporaryDirectory();
  writeFileSync(join(open, '1.sock'), '');
  symlinkSync(open, join(dataDir, 'run'));
  chmodSync(open, 0o711);
  const own = new RunFolder(dataDir, null, quiet);
  expect(own.path).toBe(join(dataDir, 'run'));
  expect(lstatSync(own.path!)).toMatchObject({ uid: process.getuid!(), mode: 0o40700 });
  expect(existsSync(join(open, '1.sock'))).toBe(true);
});

test('without a usable folder Weir serves, and says so', () => {
  const dataDir = temporaryDirectory();
  const events: string[] = [];
  const logged = Object.assign((event: string) => void events.push(event), { enabled: () => true, dropped: () => 0 });
  const folder = new RunFolder(join(dataDir, 'missing'), null, logged);
  expect([folder.path, events]).toEqual([undefined, ['commands_unavailable']]);
  folder.point([1]);
  folder.ended(1);
  folder.close();
});

test('a stream stays open until its client leaves', async () => {
  const { url } = await app.addWebhook({ secret: null });
  const stream = await open('GET', '/api/v1/stream');
  onTestFinished(() => void stream.destroy());
  await fetch(url, { method: 'POST', body: '{}' });
  for await (const chunk of stream.setEncoding('utf8')) if (chunk.includes('event: event')) return;
  expect.unreachable('the stream has ended');
});
