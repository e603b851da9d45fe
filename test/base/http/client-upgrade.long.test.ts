/** A server is upgraded, and agents still have the client package of the release before. */
import { execFile } from 'node:child_process';
import { mkdir, mkdtemp, readFile, rename, rm, writeFile } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { afterAll, beforeAll, expect, test } from 'vitest';
import { release } from '../../../server/base/files/build.ts';
import { Agents } from '../../../server/manage/api/agents/service.ts';
import { Changes } from '../../../server/store/announce.ts';
import { systemActor } from '../../../server/store/audit/actor.ts';
import { type Installation, installWeir } from '../../helpers/installation.ts';
import { freePort } from '../../helpers/ports.ts';
import { type FreshDatabase, freshDatabase } from '../../helpers/postgres.ts';
import { someKey } from '../../helpers/settings.ts';
import { until } from '../../helpers/wait.ts';
import { made } from '../../helpers/webhooks.ts';
import { startWeir, type Weir } from '../../helpers/weir.ts';

const NEXT = '9.1.0';
const run = promisify(execFile);
/** npm asks no registry: everything that it needs comes from the server. */
const offline = ['--no-audit', '--no-fund', '--loglevel=error'];

let directory: string;
let next: Installation;
let database: FreshDatabase;
let weir: Weir;
let url: string;
/** Addresses of the package before and after the upgrade. */
let before: string;
let after: string;

/** The next release: another number, another client, and another name for a field of a claim. */
async function makeNext(): Promise<Installation> {
  const made = await installWeir();
  const raise = async (file: string) => {
    const manifest = JSON.parse(await readFile(file, 'utf8'));
    await writeFile(file, JSON.stringify({ ...manifest, version: NEXT }));
  };
  await raise(join(made.directory, 'dist/package.json'));
  const folder = join(made.directory, 'dist/client');
  await raise(join(folder, 'package.json'));
  await run('npm', ['pack', ...offline], { cwd: folder });
  await rename(join(folder, `weir-${NEXT}.tgz`), join(made.directory, 'dist/client.tgz'));
  await made.replace('server/manage/api/agent/schema.ts', (built) =>
    built.replace('lease_seconds: ', 'leased_seconds: '),
  );
  return made;
}

async function start(entry?: string): Promise<void> {
  const settings = { DATABASE_URL: database.conninfo, SECRETS_KEY: someKey, WORKERS: 1, PORT: new URL(url).port };
  weir = await startWeir(settings, entry === undefined ? {} : { entry });
}

async function address(): Promise<string> {
  const { detail } = (await (await fetch(`${url}/client-0.0.1-abcdef012345.tgz`)).json()) as { detail: string };
  return url + /\/client-\S+\.tgz/.exec(detail)![0];
}

/** A project that has installed this package. */
async function project(name: string, source: string): Promise<string> {
  const folder = join(directory, name);
  await mkdir(folder, { recursive: true });
  await writeFile(join(folder, 'package.json'), '{ "private": true, "type": "module" }');
  await run('npm', ['install', ...offline, source], { cwd: folder });
  return folder;
}

const npx = (source: string, ...words: string[]) =>
  run('npx', ['--yes', `--cache=${join(directory, 'cache')}`, source, ...words], { cwd: tmpdir() });

beforeAll(async () => {
  directory = await mkdtemp(join(tmpdir(), 'weir-n-'));
  database = await freshDatabase();
  url = `http://127.0.0.1:${await freePort()}`;
  next = await makeNext();
  await start();
  before = await address();
});
afterAll(async () => {
  await weir.stop();
  await next.remove();
  await database.drop();
  await rm(directory, { recursive: true });
});

test('an agent that keeps the package in its repository survives the upgrade, and npx runs the new release', async () => {
  const file = join(directory, 'client.tgz');
  await writeFile(file, Buffer.from(await (await fetch(before)).arrayBuffer()));
  const kept = await project('kept', file);
  const linked = await project('linked', before);
  expect((await npx(before, '--version')).stdout).toMatch(new RegExp(`^${release()} \\(`));
  const { id: webhookId } = await weir.addWebhook();
  const agents = new Agents({ database: database.database, changes: new Changes(database.database) }, systemActor);
  const { credential, id } = made(await agents.add({ name: 'kept', webhook_ids: [webhookId], max_leased: null }));
  await writeFile(join(kept, 'credential'), credential, { mode: 0o600 });

  await weir.stop();
  await start(next.entry);
  after = await address();
  expect(after).toContain(`/client-${NEXT}-`);

  await run('npm', ['ci', ...offline], { cwd: kept });
  // The address of the release before is gone. `npm ci` needs npm's own cache of it, and npx asks the server again.
  const empty = `--cache=${join(directory, 'empty')}`;
  await expect(run('npm', ['ci', ...offline, empty], { cwd: linked })).rejects.toThrow(/404/);
  await expect(npx(before, '--version')).rejects.toThrow(/404/);
  expect((await npx(after, '--version')).stdout).toMatch(new RegExp(`^${NEXT} \\(`));

  const words = ['--no', '--', 'weir', 'consume', url, '--credential-file', 'credential', '--once'];
  const ended = await run('npx', words, { cwd: kept }).catch((error: { stderr: string }) => error);
  expect(ended.stderr).toContain(
    `This client is of release ${release()} and the server of ${NEXT}: install the client of the server with npm install ${after}.`,
  );
  // The log line may arrive after the answer.
  const logged = await until(() => weir.events('agent_client_differs')[0]);
  expect(logged).toMatchObject({ agent_id: id, client_release: release() });
});
