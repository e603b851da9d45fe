import { existsSync } from 'node:fs';
import { chmod, readdir, readFile, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { Writable } from 'node:stream';
import { afterEach, beforeEach, describe, expect, onTestFinished, test } from 'vitest';
import { createCredential } from '../../../server/model/credential.ts';
import { takeClock } from '../../helpers/clock.ts';
import { temporaryDirectory } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { spawnWeir } from '../../helpers/weir.ts';
import { type Running, startConsume, type World } from '../command.ts';
import { eventIdOf, PlayedWeir } from './weir.ts';

let directory: string;
let weir: PlayedWeir;
let url: string;
const running: Running[] = [];

beforeEach(async () => {
  directory = temporaryDirectory();
  weir = new PlayedWeir();
  url = await weir.start();
  await writeFile(join(directory, 'credential'), `  ${weir.credential}\n`, { mode: 0o600 });
});

afterEach(async () => {
  process.emit('SIGTERM', 'SIGTERM');
  await Promise.all(running.splice(0).map(({ ended }) => ended));
  await weir.stop();
});

function consume(args: string[], world: Partial<World> = {}): Running {
  const drain = args.includes('--drain-seconds') ? [] : ['--drain-seconds', '0'];
  const started = startConsume([url, '--credential-file', 'credential', ...drain, ...args], { directory, ...world });
  running.push(started);
  return started;
}

const file = (name: string) => join(directory, name);
/** Ends when there is a file `go`. */
const HELD = 'touch begun-$WEIR_DELIVERY_ID; while [ ! -e go ]; do sleep 0.02; done';
const begun = async () => (await readdir(directory)).filter((name) => name.startsWith('begun-')).length;
const done = () => weir.rows.filter(({ state }) => state === 'done').length;

describe('printing', () => {
  test('prints each delivery as claimed, as one line of JSON, and acknowledges it', async () => {
    const rows = [weir.add('{"a":"ü\\n"}'), weir.add(Buffer.from([0, 255]))];
    const { exitCode, out, err } = await consume(['--once']).ended;
    expect(exitCode).toBe(0);
    const lines = out.split('\n');
    expect(lines.pop()).toBe('');
    expect(lines.map((line) => JSON.parse(line))).toMatchObject([
      { id: rows[0]!.id, receipt: `${rows[0]!.id}.1`, attempt: 1, event: { body: '{"a":"ü\\n"}' } },
      { id: rows[1]!.id, event: { id: eventIdOf(rows[1]!), body_base64: 'AP8=' } },
    ]);
    expect(done()).toBe(2);
    expect(err).toMatch(/^2 deliveries in [\d.]+ s: 2 done\n$/);
  });

  test('prints control characters as escapes of the same document', async () => {
    const body = '\x1b[2J\x7f\u009b31m\u202egpj';
    weir.add(body);
    const { out } = await consume(['--once']).ended;
    expect(JSON.parse(out).event.body).toBe(body);
    expect(out).not.toMatch(/[^\P{Cc}\n]|\p{Bidi_Control}/u);
  });

  test('acknowledges many deliveries in few requests', async () => {
    for (let i = 0; i < 1500; i++) weir.add();
    expect((await consume(['--concurrency', '1000', '--max', '1500']).ended).exitCode).toBe(0);
    expect(done()).toBe(1500);
    // Grouped by time: 20 requests on a quiet machine, more when the machine delays them.
    expect(weir.calls('ack').length).toBeLessThan(300);
  });

  test('returns what it cannot print, releases what waits for its turn, and fails', async () => {
    const row = weir.add();
    weir.add();
    const stdout = new Writable({
      write: (_chunk, _encoding, written) => written(Object.assign(new Error('closed'), { code: 'EPIPE' })),
    });
    expect(await consume([], { stdout }).ended).toMatchObject({
      exitCode: 1,
      message: 'standard output is not writable: EPIPE.',
    });
    expect(row).toMatchObject({ state: 'pending', reason: 'standard output is not writable: EPIPE' });
    expect(weir.calls('nack').map(({ body }) => body.release)).toEqual([undefined, true]);
  });

  test('--json prints only deliveries on standard output', async () => {
    weir.add();
    const { out, err } = await consume(['--once', '--json']).ended;
    expect(out.trimEnd().split('\n')).toHaveLength(1);
    expect(err).toContain('1 delivery in');
  });
});

describe('--exec', () => {
  test.each([
    ['text', Buffer.from('{"a":"ü"}\r\n')],
    ['bytes', Buffer.from([0, 10, 255, 0xc3, 0x28])],
    ['nothing', Buffer.alloc(0)],
    ['a megabyte', Buffer.alloc(1_048_576, 'x')],
  ])('the command gets %s on standard input, byte for byte', async (_name, body) => {
    weir.add(body);
    await consume(['--once', '--exec', 'cat >body']).ended;
    expect((await readFile(file('body'))).equals(body)).toBe(true);
    expect(done()).toBe(1);
  });

  test('the command gets the metadata in its environment, beside the inherited variables', async () => {
    const row = weir.add();
    const names = 'DELIVERY_ID EVENT_ID WEBHOOK_ID WEBHOOK_NAME ATTEMPT RECEIVED_AT CONTENT_TYPE HEADERS';
    const command = `for n in ${names}; do eval "echo \\"\\$WEIR_$n\\""; done; echo $FROM_OUTSIDE`;
    const { out } = await consume(['--once', '--exec', command]).ended;
    expect(out.split('\n')).toEqual([
      row.id,
      eventIdOf(row),
      row.webhookId,
      "a hook's name",
      '1',
      '2026-01-01T00:00:00.000Z',
      'application/json',
      '{"user-agent":"a \\"test\\"","x-länge":"1"}',
      'yes',
      '',
    ]);
  });

  test.each([
    ['exit 3', 'exit 3'],
    ['echo to stdout; exit 1', 'exit 1'],
    ['echo first >&2; printf "\\033[31mlast\\033[0m\\n\\n" >&2; exit 7', 'exit 7: last'],
    ['kill -9 $$', 'signal SIGKILL'],
    ['no-such-command', /^exit 127: .*not found$/],
    ['head -c 100000 /dev/zero | tr "\\0" x >&2; exit 1', /^exit 1: x{391}…$/],
  ])('%s: the delivery is returned with the reason', async (command, reason) => {
    const row = weir.add();
    const { exitCode, err } = await consume(['--once', '--exec', command]).ended;
    expect(exitCode).toBe(0);
    expect(row).toMatchObject({ state: 'pending', reason: expect.stringMatching(reason) });
    expect(err).toContain(`Delivery ${row.id}, attempt 1: `);
    expect(err).toContain('1 failed');
  });

  test('a command can ignore its input and leave a child running', async () => {
    weir.add(Buffer.alloc(1_048_576, 'x'));
    await consume(['--once', '--exec', 'sleep 3 & exit 0']).ended;
    expect(done()).toBe(1);
  });

  test('the output of the command is passed through, and --json adds one document', async () => {
    weir.add();
    const command = 'echo said; echo complained >&2; exit 2';
    const plain = await consume(['--once', '--exec', command]).ended;
    expect(plain.out).toBe('said\n');
    expect(plain.err).toContain('complained\n');
    weir.add();
    const json = await consume(['--once', '--exec', command, '--json']).ended;
    expect(JSON.parse(json.out)).toMatchObject({
      claimed: 1,
      done: 0,
      failed: 1,
      gone: 0,
      unsettled: 0,
      last_error: 'exit 2: complained',
    });
    expect(json.err).toContain('said\n');
  });

  test('at most --concurrency commands run at a time', async () => {
    for (let i = 0; i < 7; i++) weir.add();
    const { ended } = consume(['--exec', HELD, '--concurrency', '3', '--max', '7']);
    await until(async () => (await begun()) === 3);
    expect(weir.rows.filter(({ state }) => state === 'leased')).toHaveLength(3);
    await writeFile(file('go'), '');
    expect((await ended).exitCode).toBe(0);
    expect(done()).toBe(7);
  });
});

test('without a descriptor left for a command, its delivery fails, and the others are handled', async () => {
  for (let i = 0; i < 40; i++) weir.add();
  const args = ['--credential-file', file('credential'), '--concurrency', '40', '--exec', 'sleep 0.3'];
  const limited = ['sh', '-c', 'ulimit -n 60; exec "$@"', 'sh'];
  const started = spawnWeir({}, { command: ['consume', url, ...args], within: limited });
  onTestFinished(() => void started.child.kill('SIGKILL'));
  await until(() => weir.rows.every(({ state, reason }) => state === 'done' || reason !== null));
  expect(done()).toBeGreaterThan(0);
  expect(weir.rows.map(({ reason }) => reason)).toContain('the command could not be started: EMFILE');
  started.child.kill('SIGTERM');
  expect([await started.ended, started.stderr()]).toEqual([0, expect.not.stringContaining('unexpected')]);
});

describe('limits', () => {
  test('--once ends when no delivery is pending', async () => {
    expect(await consume(['--once', '--wait-seconds', '0']).ended).toMatchObject({ exitCode: 0, out: '' });
    expect(weir.calls('claim')).toMatchObject([{ body: { max: 8, wait_seconds: 0, lease_seconds: 60 } }]);
  });

  test('--webhook claims only from these webhooks', async () => {
    const [wanted, other] = [weir.add(), weir.add()];
    await consume(['--once', '--webhook', wanted!.webhookId.toUpperCase()]).ended;
    expect([wanted!.state, other!.state]).toEqual(['done', 'pending']);
  });

  test('--webhook of a webhook that the agent is not subscribed to is reported, and its events are awaited', async () => {
    const [own, other] = [weir.add(), weir.add()].map(({ webhookId }) => webhookId) as [string, string];
    weir.subscribed = [{ id: own }];
    const { err } = consume(['--webhook', own, '--webhook', other]);
    await until(() => weir.calls('claim').length > 0);
    expect(err()).toBe(
      `The agent test is not subscribed to the webhook ${other}, and gets none of its events. To subscribe it: weir agent subscribe the-agent --webhook ${other}\n`,
    );
    expect(weir.calls('claim')[0]!.body.webhook_ids).toEqual([own, other]);
  });

  test('--once with --webhook attempts no more than without it', async () => {
    weir.fault = () => ({ status: 503, headers: { 'retry-after': '0' } });
    const sessions = [];
    for (const more of [[], ['--webhook', weir.add().webhookId]]) {
      expect(await consume(['--once', ...more]).ended).toMatchObject({ exitCode: 1 });
      sessions.push(weir.calls('session').length);
    }
    expect(sessions).toEqual([10, 20]);
  });

  test('a server that returns long polls empty at once is not flooded with requests', async () => {
    const { err } = consume(['--wait-seconds', '0']);
    await until(() => weir.calls('claim').length >= 4);
    const [first, , , fourth] = weir.calls('claim');
    expect(fourth!.atMs - first!.atMs).toBeGreaterThan(300);
    expect(err()).toBe('');
  });
});

describe('the session', () => {
  test('is renewed before it expires', async () => {
    const clock = takeClock();
    consume(['--wait-seconds', '0']);
    for (const sessions of [1, 2]) {
      await until(() => weir.calls('claim').length >= sessions);
      expect(weir.calls('session')).toHaveLength(sessions);
      clock.forward((weir.sessionSeconds - 1) * 1000);
      await until(() => weir.calls('session').length > sessions);
    }
    weir.add();
    await until(() => done() === 1);
  });

  test('that the server no longer accepts is opened again, and the call is repeated', async () => {
    weir.add();
    consume(['--wait-seconds', '0']);
    await until(() => done() === 1);
    weir.endSessions();
    weir.add();
    await until(() => done() === 2);
    expect(weir.calls('session')).toHaveLength(2);
  });

  test('with a refused credential ends with exit code 1 and an error that contains no part of it', async () => {
    await writeFile(file('credential'), createCredential('wa').text);
    const { exitCode, message, err } = await consume([]).ended;
    expect(exitCode).toBe(1);
    expect(message).toBe(
      `${url}/ refused the credential: it was rotated or revoked, or belongs to another Weir server; ` +
        'print a new one with `weir agent rotate ID`.',
    );
    const [, lookupId, secret] = (await readFile(file('credential'), 'utf8')).split('_') as [string, string, string];
    for (const part of [lookupId, secret.slice(0, 8)]) expect(message + err).not.toContain(part);
    expect(weir.calls('session')).toHaveLength(1);
  });
});

describe('faults', () => {
  test.each(['session', 'claim', 'ack', 'nack'])('a lost connection at %s is retried', async (call) => {
    const row = weir.add();
    weir.fault = (at, number) => (at === call && number < 2 ? 'reset' : undefined);
    const command = call === 'nack' ? 'exit 1' : 'exit 0';
    expect((await consume(['--once', '--exec', command]).ended).exitCode).toBe(0);
    expect(row.state).toBe(call === 'nack' ? 'pending' : 'done');
    expect(weir.calls(call)).toHaveLength(3);
  });

  test.each([
    ['ack', 'exit 0', 'done'],
    ['nack', 'exit 1', 'failed'],
  ])('an %s whose response was lost is retried and counted once', async (call, command, counted) => {
    weir.add();
    weir.fault = (at, number) => (at === call && number === 0 ? 'lost' : undefined);
    const { out } = await consume(['--once', '--exec', command, '--json']).ended;
    expect(JSON.parse(out)).toMatchObject({ claimed: 1, [counted]: 1, gone: 0 });
    expect(weir.calls(call)).toHaveLength(2);
  });

  test('an unavailable server is retried', async () => {
    const port = Number(new URL(url).port);
    await weir.stop();
    const { ended, err } = consume(['--max', '1']);
    await until(() => err().includes(`${url}/: ECONNREFUSED: next attempt in`));
    const back = Object.assign(new PlayedWeir(), { credential: weir.credential });
    back.add();
    await back.start(port);
    try {
      expect((await ended).exitCode).toBe(0);
      expect(back.rows[0]!.state).toBe('done');
    } finally {
      await back.stop();
      await weir.start();
    }
  });

  test('a URL that is not a Weir server ends it', async () => {
    weir.fault = () => ({ status: 404 });
    const ended = {
      exitCode: 1,
      message: `${url}/ has no api/v1/agent/session; give the base URL of Weir's API.`,
    };
    expect(await consume([]).ended).toMatchObject(ended);
  });

  test('an error that a retry cannot change is reported with the detail of the server', async () => {
    weir.fault = (call) => (call === 'claim' ? { status: 422 } : undefined);
    expect(await consume([]).ended).toMatchObject({
      exitCode: 1,
      message: `${url}/ answered api/v1/agent/deliveries/claim with 422: as the test wants it`,
    });
  });
});

describe('leases', () => {
  test('are extended while commands run, in one request for all', async () => {
    const clock = takeClock();
    for (let i = 0; i < 3; i++) weir.add();
    const { ended } = consume(['--once', '--lease-seconds', '5', '--exec', HELD, '--json']);
    await until(async () => (await begun()) === 3);
    for (const extensions of [1, 2, 3]) {
      clock.forward(2_000);
      await until(() => weir.calls('extend').length === extensions);
    }
    await writeFile(file('go'), '');
    const { exitCode, out } = await ended;
    expect(exitCode).toBe(0);
    expect(JSON.parse(out)).toMatchObject({ done: 3, gone: 0 });
    expect(weir.calls('extend').map(({ body }) => body.receipts?.length)).toEqual([3, 3, 3]);
  });

  test('that were lost are reported, and the command and its children are stopped', async () => {
    const clock = takeClock();
    const row = weir.add();
    const command = 'echo $$ >pid; (sleep 60; touch survived) & wait';
    const { ended, err } = consume(['--once', '--lease-seconds', '5', '--exec', command, '--json']);
    const group = await groupOf('pid');
    weir.steal(row);
    clock.forward(2_000);
    expect(JSON.parse((await ended).out)).toMatchObject({ claimed: 1, gone: 1, unsettled: 0 });
    expect(err()).toContain(
      `Delivery ${row.id}: its lease was lost, so its work is stopped; it will be delivered again.`,
    );
    await until(() => !isAlive(group));
    expect(weir.calls('ack').concat(weir.calls('nack'))).toEqual([]);
  });

  test('that were lost before the acknowledgement are reported', async () => {
    const row = weir.add();
    const { ended } = consume(['--once', '--exec', HELD]);
    await until(() => row.state === 'leased');
    weir.steal(row);
    await writeFile(file('go'), '');
    const { exitCode, err } = await ended;
    expect(exitCode).toBe(0);
    expect(err).toContain(
      `Delivery ${row.id}: its lease was lost before it was settled, so it will be delivered again.`,
    );
  });
});

describe('ending', () => {
  test('TERM ends the long poll with exit code 0', async () => {
    const { ended } = consume([]);
    await until(() => weir.calls('claim').length === 1);
    process.emit('SIGTERM', 'SIGTERM');
    expect((await ended).exitCode).toBe(0);
    await until(() => weir.calls('claim')[0]!.gone);
  });

  test.each(['SIGTERM', 'SIGINT', 'SIGHUP'] as const)(
    '%s lets running commands finish, and settles their deliveries',
    async (signal) => {
      weir.add();
      const { ended, err } = consume(['--drain-seconds', '20', '--exec', HELD]);
      await until(async () => (await begun()) === 1);
      process.emit(signal, signal);
      expect(err().includes('press Ctrl-C again')).toBe(signal === 'SIGINT');
      // npm passes Ctrl-C of a terminal on a second time.
      process.emit('SIGINT', 'SIGINT');
      await until(() => weir.calls('claim').at(-1)!.gone);
      weir.add();
      await writeFile(file('go'), '');
      expect((await ended).exitCode).toBe(0);
      expect(weir.rows.map(({ state }) => state)).toEqual(['done', 'pending']);
    },
  );

  test('commands that still run after --drain-seconds are stopped, and their deliveries returned', async () => {
    const row = weir.add();
    const { ended } = consume(['--drain-seconds', '1', '--exec', 'trap "exit 0" TERM; touch begun; sleep 60 & wait']);
    await until(() => existsSync(file('begun')));
    process.emit('SIGTERM', 'SIGTERM');
    expect((await ended).exitCode).toBe(0);
    expect(row).toMatchObject({
      state: 'pending',
      reason: 'stopped: it still ran 1 s after the agent was asked to stop',
    });
    expect(weir.calls('nack')).toMatchObject([{ body: { delay_seconds: 0 } }]);
  });

  test('a command that ignores TERM is killed', async () => {
    const row = weir.add();
    const { ended } = consume(['--drain-seconds', '0', '--exec', 'trap "" TERM; touch begun; sleep 60']);
    await until(() => existsSync(file('begun')));
    process.emit('SIGTERM', 'SIGTERM');
    expect((await ended).exitCode).toBe(0);
    expect(row.state).toBe('pending');
  });

  test('a second Ctrl-C ends everything at once', async () => {
    const clock = takeClock();
    weir.add();
    const { ended, err } = consume(['--drain-seconds', '60', '--exec', 'trap "" TERM; echo $$ >pid; sleep 60']);
    const group = await groupOf('pid');
    process.emit('SIGINT', 'SIGINT');
    expect(err()).toBe('Waiting for 1 running; press Ctrl-C again to stop at once.\n');
    clock.forward(500);
    process.emit('SIGINT', 'SIGINT');
    expect(await ended).toMatchObject({
      exitCode: 1,
      message: '1 claimed delivery was not settled; it is delivered again when its lease expires.',
    });
    await until(() => !isAlive(group));
  });
});

describe('output', () => {
  test('a line on a terminal shows the progress', async () => {
    weir.add();
    const { err } = await consume(['--once', '--exec', 'echo oh >&2; sleep 0.5; exit 1'], { terminal: true }).ended;
    expect(err).toContain('claimed 0, running 0, done 0, failed 0');
    expect(err).toContain('claimed 1, running 1, done 0, failed 0');
    expect(err).toContain('last error: exit 1: oh');
  });

  test('output of a server or a command cannot control the terminal', async () => {
    weir.add().id = 'id\x1b[2J\u202e';
    const command = "printf 'why\\342\\200\\256' >&2; sleep 0.5; exit 1";
    const { err } = await consume(['--once', '--exec', command], { terminal: true }).ended;
    expect(err).toContain('Delivery id\\x1b[2J\\u202e, attempt 1: exit 1: why\\u202e\n');
    expect(err).toContain('last error: exit 1: why\\u202e');
  });

  test('a credential file that others can read is reported', async () => {
    await chmod(file('credential'), 0o644);
    const { err } = await consume(['--once', '--wait-seconds', '0']).ended;
    expect(err).toContain('Other users on this machine can read credential; restrict it: chmod 600 credential\n');
  });
});

describe('usage', () => {
  test.each([
    [['ftp://a/'], '"ftp://a/" is not an http or https URL.'],
    [['http://a/', '--exec', ' '], '--exec is empty; give a command, or omit it.'],
    [
      ['http://a/', '--exec', 'true', '--forward', 'http://b/'],
      '--exec and --forward were both given; give one of them.',
    ],
    [['http://a/', '--max', '0'], 'Give a whole number from 1 to 1000000000.'],
    [['http://a/', '--concurrency', '1001'], 'Give a whole number from 1 to 1000.'],
    [['http://a/', '--lease-seconds', '4'], 'Give a whole number from 5 to 3600.'],
    [['http://a/', '--wait-seconds', '31'], 'Give a whole number from 0 to 30.'],
  ])('%j: exit code 2 and a reason', async (args, message) => {
    const { ended } = startConsume([...args, '--credential-file', 'credential'], { directory });
    expect(await ended).toMatchObject({ exitCode: 2, message: expect.stringContaining(message), out: '' });
  });

  const holdsNone =
    'contains no agent credential (wa_…); store the complete credential that `weir agent add` printed in it.';
  test.each([
    ['absent', null, 'absent cannot be read: there is no such file.'],
    ['.', null, '. cannot be read: it is a directory.'],
    ['empty', '', `empty ${holdsNone}`],
    ['session', 'ws_abc', `session ${holdsNone}`],
    ['mistyped', createCredential('wa').text.replace(/.$/, '-'), `mistyped ${holdsNone}`],
    ['large', 'x'.repeat(5_000), `large ${holdsNone}`],
  ])('a credential file that is %s: exit code 1 and a reason', async (name, content, message) => {
    if (content !== null) await writeFile(file(name), content);
    const { ended } = startConsume([url, '--credential-file', name], { directory });
    expect(await ended).toMatchObject({ exitCode: 1, message });
    expect(weir.arrived).toEqual([]);
  });
});

/** The process group whose leader writes its id into this file. */
async function groupOf(name: string): Promise<number> {
  const text = await until(() => readFile(file(name), 'utf8').catch(() => ''));
  return -Number(text);
}

function isAlive(pid: number): boolean {
  try {
    process.kill(pid, 0);
    return true;
  } catch {
    return false;
  }
}
