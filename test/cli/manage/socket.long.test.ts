/** Commands beside a whole Weir: its processes are replaced, scaled and killed under commands, and it is away. */
import { execFile } from 'node:child_process';
import { chownSync, existsSync, lstatSync, readdirSync } from 'node:fs';
import { rm } from 'node:fs/promises';
import { join } from 'node:path';
import { isDeepStrictEqual, promisify } from 'node:util';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { commands } from '../../../server/cli/commands.ts';
import { lookUpUser, SYSTEM_USER } from '../../../server/store/embedded/account.ts';
import type { Overrides } from '../../helpers/app.ts';
import { runCommands } from '../../helpers/command.ts';
import { hold } from '../../helpers/hold.ts';
import { freshDatabase } from '../../helpers/postgres.ts';
import { someKey, temporaryDirectory } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { copyDataDir, kill, makeDataDir, spawnWeir, startWeir, type Weir } from '../../helpers/weir.ts';

const isRoot = process.getuid!() === 0;

async function start(settings: Overrides, from?: Parameters<typeof startWeir>[1]): Promise<Weir> {
  const weir = await ofTest(startWeir(settings, from));
  return weir;
}

/** Runs `weir ARGS` in the process of the test. */
const command = ({ dataDir }: Pick<Weir, 'dataDir'>, ...args: string[]) =>
  runCommands(commands, dataDir, { DATA_DIR: dataDir }, args);

/** The processes that have a socket. */
const sockets = ({ dataDir }: Weir) =>
  readdirSync(join(dataDir, 'run'))
    .map((name) => Number(name.replace('.sock', '')))
    .sort((one, other) => one - other);

/** Four people that add agents, one after another, until `stop`, which resolves with the number that was added. */
function startCommands(weir: Weir): { done: () => number; stop: () => Promise<number> } {
  let isStopped = false;
  let added = 0;
  const person = async () => {
    while (!isStopped) {
      const { code, err } = await command(weir, 'agent', 'add', '--name', crypto.randomUUID());
      expect([code, err]).toEqual([0, '']);
      added++;
    }
  };
  const people = Promise.all([person(), person(), person(), person()]);
  people.catch(() => {});
  return {
    done: () => added,
    stop: async () => {
      isStopped = true;
      await people;
      return added;
    },
  };
}

test('commands succeed while each of four processes is replaced, and while their number changes', async () => {
  const weir = await start({ WORKERS: 4 });
  const before = await weir.servingPids();
  expect(sockets(weir)).toEqual(before);
  const running = startCommands(weir);
  const more = async () => {
    const from = running.done();
    await until(() => running.done() >= from + 8);
  };
  await more();
  const { code, out, err } = await command(weir, 'reload');
  expect([code, err]).toEqual([0, '']);
  // This Weir has no file .env, as in a container.
  expect(out).toMatch(
    /^4 processes replaced\.\nNo setting could change: none is in \.env, [^\n]+\nAll run \S+ \(\S+\)\.\n$/,
  );
  expect(weir.events('settings_unchangeable')).toHaveLength(1);
  expect(sockets(weir).filter((pid) => before.includes(pid))).toEqual([]);
  await more();
  for (const wanted of [3, 1, 2]) {
    const { code, out } = await command(weir, 'processes', String(wanted));
    expect([code, out.match(/^\d+ +serving /gm)?.length]).toEqual([0, wanted]);
    await more();
  }
  await until(async () => (await weir.servingPids()).length === 2);
  const added = await running.stop();
  expect(await weir.sql('select from agents')).toHaveLength(added);
  await until(async () => isDeepStrictEqual(sockets(weir), await weir.servingPids()));
});

test('a request in progress is answered by the process that HUP replaces, and its command succeeds', async () => {
  const weir = await start({ WORKERS: 1 });
  const lock = await holdAgents(weir);
  const adding = command(weir, 'agent', 'add', '--name', 'waits');
  await until(lock.isAwaited);
  const [old] = await weir.servingPids();
  weir.signal('SIGHUP');
  await until(async () => (await weir.servingPids()).at(-1) !== old);
  await until(() => weir.events('process_up').length === 2);
  await lock.release();
  expect(await adding).toMatchObject({ code: 0, err: '' });
  await until(() => weir.events('restarted').length > 0);
  expect(sockets(weir)).toEqual(await weir.servingPids());
});

test('kill -9: the command of that process fails, and the next one is served by another process', async () => {
  const weir = await start({ WORKERS: 1 });
  const lock = await holdAgents(weir);
  const adding = command(weir, 'agent', 'add', '--name', 'cut off');
  await until(lock.isAwaited);
  const [pid] = await weir.servingPids();
  kill(pid!, 'SIGKILL');
  const { code, err } = await adding;
  expect([code, err]).toEqual([1, expect.stringMatching(/^weir: \S+\/weir\.sock did not answer: ECONNRESET\.\n$/)]);
  await lock.release();
  // It waits for the new process.
  expect((await command(weir, 'agent', 'list')).code).toBe(0);
  expect(sockets(weir)).toEqual(await weir.servingPids());
  expect(sockets(weir)).not.toContain(pid);
});

/** Lets no agent be added until its release; reads are answered. */
async function holdAgents({ conninfo, database }: Weir) {
  const release = await hold(conninfo, 'lock table agents in exclusive mode');
  const text = `select from pg_locks where relation = 'agents'::regclass and not granted`;
  return { isAwaited: async () => (await database.query({ text })).length > 0, release };
}

test('after an end nothing is left; after kill -9 commands say that nothing serves, and the next Weir serves them', async () => {
  const { conninfo, drop } = await freshDatabase();
  const dataDir = await makeDataDir();
  onTestFinished(async () => {
    await rm(dataDir, { recursive: true });
    await drop();
  });
  const settings = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: dataDir, WORKERS: 1 };
  const list = () => runCommands(commands, dataDir, { ...settings, WORKERS: '1' }, ['webhook', 'list']);
  const nothing = { code: 3, err: expect.stringContaining(`no Weir serves in ${dataDir}: `) };
  const first = await startWeir(settings);
  await first.forget();
  first.signal('SIGTERM');
  expect(await first.ended).toBe(0);
  expect(['run', 'weir.sock'].filter((name) => existsSync(join(dataDir, name)))).toEqual([]);
  expect(await list()).toMatchObject(nothing);

  const second = await startWeir(settings);
  await second.forget();
  kill(second.pid, 'SIGKILL');
  await second.ended;
  await until(async () => (await list()).code === 3);
  expect(lstatSync(join(dataDir, 'weir.sock')).isSymbolicLink()).toBe(true);
  expect(await list()).toMatchObject(nothing);

  const third = await startWeir(settings);
  expect((await list()).code).toBe(0);
  expect(sockets(third)).toEqual(await third.servingPids());
  await third.forget();
  third.signal('SIGTERM');
  await third.ended;
});

describe('without a Weir that serves', () => {
  test('the first administrator is added, and a lost password is set, on the database; later by the Weir that serves', async () => {
    const dataDir = await copyDataDir();
    const here = { dataDir };
    const add = (email: string) => ['user', 'add', '--email', email, '--role', 'administrator', '--json'];
    const setPassword = ['user', 'password', 'ada@example.org', '--json'];
    const added = await command(here, ...add('ada@example.org'));
    expect([added.code, JSON.parse(added.out)]).toMatchObject([0, { role: 'administrator' }]);
    const lost = await command(here, ...setPassword);
    expect([lost.code, JSON.parse(lost.out)]).toMatchObject([0, { generated_password: expect.any(String) }]);
    expect((await command(here, 'user', 'list')).code).toBe(3);

    const weir = await start({ DATA_DIR: dataDir, WORKERS: 1 });
    expect(weir.events('setup_address')).toEqual([]);
    expect((await command(weir, ...add('grace@example.org'))).err).toBe('');
    expect((await command(weir, ...setPassword)).err).toBe('');
    const { items } = JSON.parse((await command(weir, 'audit', 'list', '--json')).out);
    const kinds: string[] = items.map(({ actor }: { actor: { kind: string } }) => actor.kind);
    // The system notes which build serves.
    expect(kinds.filter((kind) => kind !== 'system')).toEqual(Array(4).fill('command'));
  });

  test('a backup is written, as beside one that serves', async () => {
    const dataDir = await copyDataDir();
    const directory = temporaryDirectory();
    const backUp = (name: string) => command({ dataDir }, 'backup', join(directory, name), '--json');
    const without = await backUp('without.dump');
    const weir = await start({ DATA_DIR: dataDir, WORKERS: 1 });
    await weir.addWebhook();
    const beside = await backUp('beside.dump');
    for (const { code, out } of [without, beside])
      expect([code, JSON.parse(out)]).toMatchObject([0, { bytes: expect.any(Number) }]);
  });
});

describe.runIf(isRoot)('users', () => {
  let weirUser: { uid: number; gid: number };
  beforeAll(async () => {
    weirUser = (await lookUpUser(SYSTEM_USER))!;
  });

  const as = (user: string) => ['setpriv', `--reuid=${user}`, `--regid=${user}`, '--clear-groups'];
  const stranger = ['setpriv', '--reuid=65534', '--regid=65534', '--clear-groups'];

  async function listAs(within: readonly string[], { dataDir }: Weir) {
    const child = spawnWeir({ DATA_DIR: dataDir }, { command: ['webhook', 'list'], within });
    return [await child.ended, child.stderr()];
  }

  async function expectGuard(weir: Weir): Promise<void> {
    const { uid, mode } = lstatSync(join(weir.dataDir, 'run'));
    expect([uid, mode & 0o777]).toEqual([weirUser.uid, 0o700]);
    expect(await listAs([], weir)).toEqual([0, '']);
    expect(await listAs(as(SYSTEM_USER), weir)).toEqual([0, '']);
    const [code, err] = await listAs(stranger, weir);
    expect([code, err]).toEqual([
      1,
      expect.stringMatching(/^weir: the user \S+ may not use \S+\/weir\.sock: run the command as/),
    ]);
  }

  test('of a Weir that root started, root and the user of its processes run commands, and no other user', async () => {
    await expectGuard(await start({ WORKERS: 1 }));
  });

  test('of a Weir that an ordinary user started, root and that user run commands, and no other user', async () => {
    const { conninfo, drop } = await freshDatabase();
    const dataDir = await makeDataDir();
    onTestFinished(() => drop());
    chownSync(dataDir, weirUser.uid, weirUser.gid);
    const settings = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: dataDir, WORKERS: 1 };
    const weir = await start(settings, { within: as(SYSTEM_USER), directory: '/' });
    const { stdout } = await promisify(execFile)('ps', ['-o', 'user=', '-p', String(weir.pid)]);
    expect(stdout.trim()).toBe(SYSTEM_USER);
    await expectGuard(weir);
  });
});
