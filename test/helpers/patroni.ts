/** A Postgres made highly available by Patroni: a leader, a synchronous standby and an etcd, all real, on ports of 127.0.0.1. */
import { type ChildProcess, spawn } from 'node:child_process';
import { existsSync, readFileSync } from 'node:fs';
import { appendFile, chown, copyFile, mkdir, readFile, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { parse } from 'yaml';
import { hasEtcdClient, postgresServerFolder } from '../../server/operate/setup/debian.mjs';
import { lookUpUser } from '../../server/store/embedded/account.ts';
import { freePort } from './ports.ts';
import { childrenOf, look, processesOf } from './processes.ts';
import { until } from './wait.ts';
import { kill, makeDataDir } from './weir.ts';

const ADDRESS = '127.0.0.1';
/** Password of Patroni's REST interface and of etcd. */
const PASSWORD = 'a password of the tests';
/** A frozen Patroni does not answer. */
const ANSWER_MS = 2_000;
/** Lines of Patroni's log in the message when it does not start. */
const LINES_SHOWN = 30;

/** What this machine lacks for a test of Patroni; the empty string when it lacks nothing. The set-up of the tests installs it where it may. */
export function lackingForPatroni(): string {
  const folders = (process.env.PATH ?? '').split(':');
  const lacking = ['patroni', 'etcd'].filter((name) => !folders.some((folder) => existsSync(join(folder, name))));
  if (!hasEtcdClient()) lacking.push('python3-etcd');
  if (postgresServerFolder() === undefined) lacking.push('the server of Postgres from Debian');
  return lacking.join(', ');
}

export interface Node {
  readonly name: string;
  readonly port: number;
  /** Port of Patroni's REST interface. */
  readonly restPort: number;
  /** SIGKILL of its Patroni and of every process of its Postgres at once, as when the machine loses power. */
  kill(): Promise<void>;
  /** Starts Patroni (again), which starts Postgres. */
  start(): void;
  /** SIGSTOP of the same processes: connections stay open without any response. Returns how to let them continue. */
  freeze(): Promise<() => void>;
  /** What its Patroni knows of the cluster; null while it does not answer. */
  members(): Promise<Member[] | null>;
}

interface Member {
  name: string;
  state: string;
  role: string;
}

const RUNNING = new Set(['running', 'streaming']);

export interface Patroni {
  readonly nodes: readonly [Node, Node];
  readonly etcdPort: number;
  /** Connection string of an empty database. It names both hosts, with target_session_attrs. */
  readonly conninfo: string;
  /** Waits for a leader and a synchronous standby that may be promoted; returns both. */
  settled(): Promise<{ leader: Node; standby: Node }>;
  stop(): Promise<void>;
}

interface Configuration {
  bootstrap: { dcs: object };
  postgresql: { parameters: object };
}

/** The configuration of compose.failover.yaml. */
function publishedConfiguration(): Configuration {
  return parse(readFileSync(new URL('../../containers/patroni.yml', import.meta.url), 'utf8')) as Configuration;
}

interface Place {
  directory: string;
  account: { uid: number; gid: number } | null;
  etcdPort: number;
}

/** Starts all of it and waits until the standby is synchronous. */
export async function startPatroni(): Promise<Patroni> {
  const directory = await makeDataDir();
  const account = process.getuid!() === 0 ? ((await lookUpUser('weir')) ?? (await lookUpUser('postgres'))) : null;
  const place = { directory, account, etcdPort: await freePort() };
  if (account !== null) await chown(directory, account.uid, account.gid);
  await startEtcd(place);
  const nodes = [await prepareNode('one', place), await prepareNode('two', place)] as const;
  const hosts = nodes.map(({ port }) => `${ADDRESS}:${port}`).join(',');
  const settled = () =>
    until(async () => {
      const roles = await rolesOf(nodes);
      const leader = nodes.find(({ name }) => roles.get(name) === 'leader');
      const standby = nodes.find(({ name }) => roles.get(name) === 'sync_standby');
      return leader && standby && { leader, standby };
    });
  const stop = async () => {
    // With its children: those of a frozen Postgres do not notice its end.
    for (const { pid } of await processesOf(directory))
      for (const each of [...(await childrenOf(pid)), pid]) kill(each, 'SIGKILL');
    await until(async () => (await processesOf(directory)).length === 0);
    await rm(directory, { recursive: true, force: true });
  };
  const start = async () => {
    nodes[0].start();
    await until(async () => (await rolesOf(nodes)).get('one') === 'leader');
    nodes[1].start();
    await settled();
  };
  await start().catch(async (error: Error) => {
    const log = await readFile(join(directory, 'patroni.log'), 'utf8');
    await stop();
    throw new Error(`${error.message}\n${log.split('\n').slice(-LINES_SHOWN).join('\n')}`);
  });
  return {
    nodes,
    etcdPort: place.etcdPort,
    stop,
    conninfo: `postgresql://weir@${hosts}/weir?target_session_attrs=read-write`,
    settled,
  };
}

/**
 * Role by name of the members that run. `sync_standby` is what etcd says: Postgres calls a standby synchronous some seconds earlier, and until
 * then Patroni would not promote it.
 */
async function rolesOf(nodes: readonly Node[]): Promise<Map<string, string>> {
  const answers = await Promise.all(nodes.map((node) => node.members()));
  const running = (answers.find((members) => members !== null) ?? []).filter(({ state }) => RUNNING.has(state));
  return new Map(running.map(({ name, role }) => [name, role]));
}

async function startEtcd(place: Place): Promise<void> {
  const peers = `http://${ADDRESS}:${await freePort()}`;
  const clients = `http://${ADDRESS}:${place.etcdPort}`;
  const options = {
    name: 'weir',
    'data-dir': join(place.directory, 'etcd'),
    'listen-client-urls': clients,
    'advertise-client-urls': clients,
    'listen-peer-urls': peers,
    'initial-advertise-peer-urls': peers,
    'initial-cluster': `weir=${peers}`,
    // Patroni tests nothing of etcd's disk, and a busy machine has slow ones: a leader of its own cluster is never lost.
    'heartbeat-interval': '1000',
    'election-timeout': '10000',
  };
  const script = fileURLToPath(new URL('../../containers/etcd.py', import.meta.url));
  // For the account: the installation may be in a directory of root.
  await copyFile(script, join(place.directory, 'etcd.py'));
  const words = Object.entries(options).map(([name, value]) => `--${name}=${value}`);
  launch(place, 'python3', [join(place.directory, 'etcd.py'), ...words]);
  // Before that, etcd has no user, and listens for its script alone.
  const isRefused = () => fetch(`${clients}/v3/kv/range`, { method: 'POST', body: '{"key":"Lw=="}' });
  await until(() =>
    isRefused().then(
      ({ status }) => status >= 400,
      () => false,
    ),
  );
}

async function prepareNode(name: string, place: Place): Promise<Node> {
  const port = await freePort();
  const restPort = await freePort();
  const home = join(place.directory, name);
  await mkdir(home);
  if (place.account !== null) await chown(home, place.account.uid, place.account.gid);
  const configuration = join(home, 'patroni.yml');
  // YAML contains JSON.
  await writeFile(configuration, JSON.stringify(configure({ name, home, port, restPort }, place)));
  let patroni: ChildProcess | undefined;
  /** Patroni and Postgres, each with its children. */
  const processes = async () => {
    const pidFile = await readFile(join(home, 'data/postmaster.pid'), 'utf8').catch(() => '');
    const heads = [patroni!.pid!, Number.parseInt(pidFile, 10)].filter((pid) => pid > 0);
    return (await Promise.all(heads.map(async (pid) => [pid, ...(await childrenOf(pid))]))).flat();
  };
  return {
    name,
    port,
    restPort,
    start() {
      patroni = launch(place, 'patroni', [configuration]);
    },
    async kill() {
      const ended = new Promise((resolve) => patroni!.once('exit', resolve));
      const pids = await processes();
      for (const pid of pids) kill(pid, 'SIGKILL');
      await ended;
      await until(async () => (await Promise.all(pids.map(look))).every((seen) => seen === null));
    },
    async freeze() {
      const pids = await processes();
      for (const pid of pids) kill(pid, 'SIGSTOP');
      return () => {
        for (const pid of pids) kill(pid, 'SIGCONT');
      };
    },
    async members() {
      const signal = AbortSignal.timeout(ANSWER_MS);
      const answer = await fetch(`http://${ADDRESS}:${restPort}/cluster`, { signal }).catch(() => null);
      return answer === null ? null : ((await answer.json()) as { members: Member[] }).members;
    },
  };
}

function configure(
  { name, home, port, restPort }: { name: string; home: string; port: number; restPort: number },
  { etcdPort }: Place,
) {
  const account = { username: 'weir' };
  const published = publishedConfiguration();
  const { bootstrap, postgresql } = published;
  return {
    ...published,
    name,
    restapi: {
      listen: `${ADDRESS}:${restPort}`,
      connect_address: `${ADDRESS}:${restPort}`,
      authentication: { username: 'weir', password: PASSWORD },
    },
    etcd3: { host: `${ADDRESS}:${etcdPort}`, username: 'root', password: PASSWORD },
    // A short loop for a quick start of the standby; the lease, which decides on failovers, stays.
    bootstrap: { ...bootstrap, dcs: { ...bootstrap.dcs, loop_wait: 1 } },
    postgresql: {
      ...postgresql,
      listen: `${ADDRESS}:${port}`,
      connect_address: `${ADDRESS}:${port}`,
      bin_dir: postgresServerFolder(),
      data_dir: join(home, 'data'),
      pgpass: join(home, 'pgpass'),
      authentication: { superuser: account, replication: account, rewind: account },
      pg_hba: [`host all all ${ADDRESS}/32 trust`, `host replication all ${ADDRESS}/32 trust`, 'local all all trust'],
      parameters: { ...postgresql.parameters, unix_socket_directories: home },
    },
    watchdog: { mode: 'off' },
  };
}

/** Starts a program of the account; its output is appended to a file beside the data. */
function launch({ directory, account }: Place, program: string, words: string[]): ChildProcess {
  const child = spawn(program, words, {
    cwd: directory,
    env: { PATH: process.env.PATH, LC_ALL: 'C.UTF-8', HOME: directory, ETCD_PASSWORD: PASSWORD },
    stdio: ['ignore', 'pipe', 'pipe'],
    ...(account ?? {}),
  });
  const log = join(directory, `${program}.log`);
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (text) => void appendFile(log, text).catch(() => {}));
  return child;
}
