/** Started by root, Weir serves as the user weir or logs why it cannot. Started by another user, it serves as that user. */
import { spawnSync } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { chmod, mkdtemp, readFile, rm, symlink } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join, resolve } from 'node:path';
import { afterAll, beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { chooseServingUser, processEnvironment } from '../../../server/operate/primary/forks.ts';
import { lookUpUser, SYSTEM_USER } from '../../../server/store/embedded/account.ts';
import { installWeir } from '../../helpers/installation.ts';
import { addPerson } from '../../helpers/people.ts';
import { freePort } from '../../helpers/ports.ts';
import { type FreshDatabase, freshDatabase } from '../../helpers/postgres.ts';
import { signatureOf } from '../../helpers/requests.ts';
import { builtScript } from '../../helpers/script.ts';
import { settingsOf, someKey } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { makeDataDir, spawnWeir, startWeir, type Weir } from '../../helpers/weir.ts';

const root = resolve(import.meta.dirname, '../../..');
const isRoot = process.getuid!() === 0;
const firstFreePort = Number(readFileSync('/proc/sys/net/ipv4/ip_unprivileged_port_start', 'utf8'));

/** Real, effective, saved and file system user of a process, and its groups. */
async function idsOf(pid: number): Promise<{ uids: number[]; gids: number[]; groups: string }> {
  const status = await readFile(`/proc/${pid}/status`, 'utf8');
  const numbers = (name: string) =>
    status
      .match(new RegExp(`^${name}:\\s+(.*)$`, 'm'))![1]!
      .trim()
      .split(/\s+/)
      .map(Number);
  return { uids: numbers('Uid'), gids: numbers('Gid'), groups: status.match(/^Groups:[ \t]*(.*)$/m)![1]!.trim() };
}

async function expectServedBy({ uid, gid }: { uid: number; gid: number }, weir: Weir): Promise<void> {
  const pids = await weir.servingPids();
  expect(pids.length).toBeGreaterThan(0);
  for (const pid of pids)
    expect(await idsOf(pid)).toMatchObject({ uids: [uid, uid, uid, uid], gids: [gid, gid, gid, gid] });
}

async function expectThreadPool(weir: Weir, threads: number): Promise<void> {
  for (const pid of await weir.servingPids())
    expect((await readFile(`/proc/${pid}/environ`, 'utf8')).split('\0')).toContain(`UV_THREADPOOL_SIZE=${threads}`);
}

async function send(weir: Weir, { path, secret }: { path: string; secret: string }): Promise<number> {
  const body = '{"hello":"world"}';
  const headers = { 'x-hub-signature-256': signatureOf(secret, body) };
  return (await fetch(`http://127.0.0.1:${weir.port}${path}`, { method: 'POST', headers, body })).status;
}

test("libuv gets more threads than connection attempts can take, and glibc a fixed threshold, or the operator's numbers", () => {
  expect(processEnvironment({}, 16_384)).toMatchObject({ UV_THREADPOOL_SIZE: '16', MALLOC_MMAP_THRESHOLD_: '1000000' });
  const own = { UV_THREADPOOL_SIZE: '8', MALLOC_MMAP_THRESHOLD_: '131072' };
  expect(processEnvironment(own, 16_384)).toMatchObject(own);
});

const cleanUps: (() => Promise<void>)[] = [];

/** This checkout if the user weir can read it, else a copy: a checkout below /root (mode 0700) is unreadable to it. */
async function readableInstallation(user: { uid: number; gid: number }): Promise<string> {
  const looks = `require('node:fs').accessSync(${JSON.stringify(join(root, 'dist/server/main.js'))})`;
  if (spawnSync(process.execPath, ['-e', looks], { ...user, cwd: '/' }).status === 0) return root;
  // On a disk, where hard links to the packages may be possible: the temporary files of tests are in memory.
  const copy = await mkdtemp('/var/tmp/weir-i-');
  cleanUps.push(() => rm(copy, { recursive: true }));
  await chmod(copy, 0o755);
  const { directory } = await installWeir(join(copy, 'weir'));
  await rm(join(directory, 'node_modules'));
  const modules = [join(root, 'node_modules'), join(directory, 'node_modules')];
  // A copy that was begun with hard links, which need one file system, is completed without them.
  if (spawnSync('cp', ['-aT', '--link', ...modules]).status !== 0) spawnSync('cp', ['-aT', ...modules]);
  return directory;
}

test.runIf(!isRoot)('an ordinary user serves as itself, and nothing is tried', async () => {
  expect(await chooseServingUser('/nonexistent', settingsOf({}), '')).toEqual({ kind: 'user', user: null });
  const weir = await startWeir();
  onTestFinished(() => weir.stop());
  await expectServedBy(userInfo(), weir);
  await expectThreadPool(weir, 16);
  expect(weir.events('serving_as_root')).toEqual([]);
});

describe.runIf(isRoot)('started by root', () => {
  let weirUser: { uid: number; gid: number };
  let database: FreshDatabase;
  let trial: string;
  let from: { entry: string };

  beforeAll(async () => {
    const { uid, gid } = (await lookUpUser(SYSTEM_USER))!;
    weirUser = { uid, gid };
    const installation = await readableInstallation(weirUser);
    trial = join(installation, 'dist/server/operate/process/trial.js');
    from = { entry: join(installation, 'dist/server/cli/weir.js') };
    database = await freshDatabase();
  });
  afterAll(async () => {
    await database.drop();
    for (const remove of cleanUps) await remove();
  });

  test('every process runs as weir, also after HUP and TTIN, beside commands of root', async () => {
    const weir = await startWeir({}, from);
    onTestFinished(() => weir.stop());
    await expectServedBy(weirUser, weir);
    await expectThreadPool(weir, 16);
    for (const pid of await weir.servingPids()) expect((await idsOf(pid)).groups).toBe('');
    expect(weir.events('serving_as_root')).toEqual([]);

    const before = await weir.servingPids();
    weir.signal('SIGHUP');
    await until(() => weir.events('restarted').length > 0);
    weir.signal('SIGTTIN');
    await until(async () => (await weir.servingPids()).length === 3);
    expect((await weir.servingPids()).filter((pid) => before.includes(pid))).toEqual([]);
    await expectServedBy(weirUser, weir);

    const settings = { DATA_DIR: weir.dataDir, PORT: weir.port, METRICS_PORT: weir.metricsPort };
    const command = spawnWeir(settings, {
      command: ['webhook', 'add', '--name', 'by-root', '--generate-secret', '--json'],
    });
    expect(await command.ended).toBe(0);
    const { url, secret } = JSON.parse(command.lines.join('')) as { url: string; secret: string };
    expect(await send(weir, { path: new URL(url).pathname, secret })).toBe(202);
  });

  test('through a link in a directory that weir cannot enter, root serves', async () => {
    const closed = await mkdtemp(join(tmpdir(), 'weir-closed-'));
    onTestFinished(() => rm(closed, { recursive: true }));
    const link = join(closed, 'current');
    await symlink(resolve(from.entry, '../../../..'), link);
    const weir = await startWeir({ WORKERS: 1 }, { entry: join(link, 'dist/server/cli/weir.js') });
    onTestFinished(() => weir.stop());
    await expectServedBy({ uid: 0, gid: 0 }, weir);
    const [{ fix } = {}] = weir.events('serving_as_root');
    expect(fix).toMatch(`chmod -R go+rX ${link} (`);
  });

  test('data of a Weir that ran as root is served by weir, and the key is kept', async () => {
    const settings = { DATA_DIR: await makeDataDir(), WORKERS: 1 };
    const first = spawnWeir(settings, {
      command: ['webhook', 'add', '--name', 'older', '--generate-secret', '--json'],
    });
    expect(await first.ended).toBe(0);
    const { url, secret } = JSON.parse(first.lines.join('')) as { url: string; secret: string };
    const weir = await startWeir(settings, from);
    onTestFinished(() => weir.stop());
    await expectServedBy(weirUser, weir);
    // Decrypted with the key in DATA_DIR/secrets.key, which only root can read.
    expect(await send(weir, { path: new URL(url).pathname, secret })).toBe(202);
  });

  test('the page Status has the same diagnosis as root', async () => {
    const weir = await startWeir({ WORKERS: 1 }, from);
    onTestFinished(() => weir.stop());
    const url = `http://127.0.0.1:${weir.port}`;
    const administrator = await addPerson(
      { database: weir.database, url, settings: { PUBLIC_URL: url } },
      'administrator',
    );
    const checks = await until(async () => {
      const { doctor } = (await administrator.api('GET', '/api/v1/status')).body;
      return doctor.state === 'done' ? (doctor.checks as { name: string; state: string }[]) : null;
    });
    // The user weir can neither write to DATA_DIR nor read the key.
    expect(checks).toContainEqual(expect.objectContaining({ name: 'data_dir', state: 'ok' }));
    expect(checks).toContainEqual(expect.objectContaining({ name: 'secrets_key', state: 'ok' }));
  });

  test('an installation that weir cannot read is served by root, with one warning', async () => {
    const closed = await mkdtemp(join(tmpdir(), 'weir-i-'));
    onTestFinished(() => rm(closed, { recursive: true }));
    const { directory: installation, entry } = await installWeir(join(closed, 'weir'));
    const settings = {
      DATABASE_URL: database.conninfo,
      SECRETS_KEY: someKey,
      DATA_DIR: await makeDataDir(),
      PORT: await freePort(),
      METRICS_PORT: await freePort(),
      WORKERS: 1,
    };
    const weir = spawnWeir(settings, { entry });
    onTestFinished(async () => {
      weir.child.kill('SIGTERM');
      expect(await weir.ended).toBe(0);
    });
    await until(() => weir.events('listening').length > 0);
    expect(weir.events('serving_as_root')).toMatchObject([
      {
        level: 40,
        reason: expect.stringMatching(/^the user weir cannot run this installation: .*(EACCES|Cannot find module)/),
        fix: expect.stringContaining(`chmod -R go+rX ${installation} (and chmod go+x the directories above it)`),
      },
    ]);
    const [pid] = weir.events('process_up').map(({ process }) => process as number);
    expect((await idsOf(pid!)).uids).toEqual([0, 0, 0, 0]);
  });

  test('a user weir with all permissions is chosen', async () => {
    const settings = settingsOf({ PORT: String(await freePort()) });
    const choice = await chooseServingUser(trial, settings, database.conninfo);
    expect(choice).toMatchObject({ kind: 'user', user: { uid: weirUser.uid, gid: weirUser.gid } });
  });

  // In a container every port may be open to all users.
  test.runIf(firstFreePort > 1)('a port that needs a privilege keeps root', async () => {
    const settings = settingsOf({ PORT: String(firstFreePort - 1) });
    expect(await chooseServingUser(trial, settings, database.conninfo)).toEqual({
      kind: 'root',
      reason: expect.stringMatching(/^the user weir cannot listen: PORT \d+ needs privileges/),
      fix: expect.stringMatching(/^choose a PORT above 1023 .*CAP_NET_BIND_SERVICE/),
    });
  });

  test('a root that may not change its user serves as root, and the embedded Postgres says how to fix it', async () => {
    const script = await builtScript(`
      import { runBinary } from '#server/store/embedded/binaries.ts';
      import { chooseServingUser } from '#server/operate/primary/forks.ts';
      const choice = await chooseServingUser(process.argv[2], { HOST: '127.0.0.1', PORT: 0, database: {} }, '');
      const { uid, gid } = ${JSON.stringify(weirUser)};
      const server = { binaries: { directory: '/nonexistent' }, account: { uid, gid, name: 'weir' } };
      const refusal = await runBinary(server, 'postgres', []).catch(({ message }) => message);
      process.stdout.write(JSON.stringify({ choice, refusal }));`);
    const node = [process.execPath, script, trial];
    const { stdout, stderr } = spawnSync('setpriv', ['--bounding-set=-setuid,-setgid', ...node], {
      cwd: root,
      encoding: 'utf8',
    });
    expect(stderr).toBe('');
    expect(JSON.parse(stdout)).toEqual({
      choice: {
        kind: 'root',
        reason: 'Weir cannot switch from root to the user weir: spawn EPERM',
        fix: 'start Weir as the user weir',
      },
      refusal:
        'Weir cannot switch from root to the user weir: spawn EPERM; run Weir as an ordinary user, or set DATABASE_URL',
    });
  });

  test('a database that weir cannot connect to keeps root, without logging the password', async () => {
    const conninfo = `${database.conninfo} dbname=nowhere password=sesame`;
    const DATABASE_URL = 'postgres://weir:sesame@127.0.0.1/nowhere';
    const settings = settingsOf({ PORT: String(await freePort()), DATABASE_URL, SECRETS_KEY: someKey });
    expect(await chooseServingUser(trial, settings, conninfo)).toEqual({
      kind: 'root',
      reason: expect.stringMatching(/^the user weir cannot connect to the database: (?!.*sesame)/),
      fix: 'let the user weir read the files that DATABASE_URL names',
    });
  });
});
