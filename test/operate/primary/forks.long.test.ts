/** Started by root, a whole Weir serves as the user weir, from any installation. Started by another user, it serves as that user. */
import { mkdtemp, readdir, readFile, rename, rm, symlink } from 'node:fs/promises';
import { tmpdir, userInfo } from 'node:os';
import { join } from 'node:path';
import { beforeAll, describe, expect, onTestFinished, test } from 'vitest';
import { lookUpUser, SYSTEM_USER } from '../../../server/store/embedded/account.ts';
import { installWeir } from '../../helpers/installation.ts';
import { addPerson } from '../../helpers/people.ts';
import { look } from '../../helpers/processes.ts';
import { signatureOf } from '../../helpers/requests.ts';
import { someKey } from '../../helpers/settings.ts';
import { ofTest } from '../../helpers/shared.ts';
import { until } from '../../helpers/wait.ts';
import { ask, spawnWeir, startWeir, type Weir } from '../../helpers/weir.ts';

const isRoot = process.getuid!() === 0;

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

test.runIf(!isRoot)('an ordinary user serves as itself', async () => {
  const weir = await ofTest(startWeir());
  await expectServedBy(userInfo(), weir);
  await expectThreadPool(weir, 16);
  expect(weir.events('serving_as_root')).toEqual([]);
});

test('no secret of the settings is in the environment of a process', async () => {
  const secrets = { ADMIN_PASSWORD: 'correct horse battery 9', SECRETS_KEY: someKey, OIDC_CLIENT_SECRET: 'sesame' };
  const weir = await ofTest(startWeir({ WORKERS: 1, ADMIN_EMAIL: 'ada@example.org', ...secrets }));
  const [pid] = await weir.servingPids();
  const environment = await readFile(`/proc/${pid}/environ`, 'utf8');
  expect(environment).toContain(`DATA_DIR=${weir.dataDir}`);
  for (const [name, value] of Object.entries(secrets)) {
    expect(environment).not.toContain(name);
    expect(environment).not.toContain(value);
  }
});

describe.runIf(isRoot)('started by root', () => {
  let weirUser: { uid: number; gid: number };

  beforeAll(async () => {
    const { uid, gid } = (await lookUpUser(SYSTEM_USER))!;
    weirUser = { uid, gid };
  });

  test('every process runs as weir, also after HUP and TTIN, beside commands of root', async () => {
    const weir = await ofTest(startWeir());
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

  test('the page Status has the same diagnosis as root', async () => {
    const weir = await ofTest(startWeir({ WORKERS: 1 }));
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

  test('from installations that weir cannot read, it serves copies: the one of the link at the start and at HUP', async () => {
    const closed = await mkdtemp(join(tmpdir(), 'weir-i-'));
    onTestFinished(() => rm(closed, { recursive: true }));
    const link = join(closed, 'current');
    const use = async (release: string) => {
      await symlink(release, `${link}.next`);
      await rename(`${link}.next`, link);
    };
    await installWeir(join(closed, 'one'));
    await use('one');
    const weir = await ofTest(startWeir({ WORKERS: 1 }, { entry: join(link, 'dist/server/cli/weir.js') }));
    await expectServedBy(weirUser, weir);
    expect(weir.events('listening')).toMatchObject([{ user: 'weir' }]);
    const runs = async () => (await look((await weir.servingPids())[0]!))!.command;
    const copies = () => readdir(join(weir.dataDir, 'releases'));
    const [first] = await copies();
    expect(await runs()).toContain(`${weir.dataDir}/releases/${first}/dist/server/main.js`);

    // Its packages, threads, views, assets and samples.
    expect(await send(weir, await weir.addWebhook())).toBe(202);
    const page = await ask(weir.port, '/docs/getting-started');
    const assets = [...page.body.matchAll(/(?:href|src)="(\/assets\/[^"]+)"/g)].map(([, path]) => path!);
    expect(assets.length).toBeGreaterThan(2);
    for (const path of [...assets, '/readyz']) expect([path, (await ask(weir.port, path)).status]).toEqual([path, 200]);

    const two = await installWeir(join(closed, 'two'));
    await two.replace('server/manage/api/status/health.ts', (built) =>
      built.replace('status: "ok" }', 'status: "new" }'),
    );
    await use('two');
    weir.signal('SIGHUP');
    await until(() => weir.events('restarted').length > 0);
    await expectServedBy(weirUser, weir);
    expect((await ask(weir.port, '/healthz')).body).toContain('"new"');
    // The primary removes the other copy after it has logged the restart.
    const [second] = await until(async () => {
      const names = await copies();
      return names.length === 1 ? names : null;
    });
    expect(second).not.toBe(first);
    expect(await runs()).toContain(`/releases/${second}/`);

    await two.replace('server/operate/process/app.ts', (built) => `${built}\nprocess.exit(7);`);
    weir.signal('SIGHUP');
    await until(() => weir.events('restart_failed').length > 0);
    expect(await copies()).toHaveLength(2);
    expect((await ask(weir.port, '/healthz')).body).toContain('"new"');
  });

  test('SERVE_AS_ROOT=true serves as root, with a warning in the log and of the doctor', async () => {
    const weir = await ofTest(startWeir({ WORKERS: 1, SERVE_AS_ROOT: 'true' }));
    await expectServedBy({ uid: 0, gid: 0 }, weir);
    expect(weir.events('serving_as_root')).toMatchObject([{ level: 40 }]);
    expect(weir.events('listening')).toMatchObject([{ user: 'root' }]);
    const doctor = spawnWeir({ DATA_DIR: weir.dataDir, SERVE_AS_ROOT: 'true' }, { command: ['doctor', '--json'] });
    await doctor.ended;
    const { checks } = JSON.parse(doctor.lines.join('')) as { checks: { name: string }[] };
    expect(checks).toContainEqual(expect.objectContaining({ name: 'serving_user', state: 'advice' }));
  });
});
