/** Several installations on machines of their own, with one Postgres and one Redis Cluster, behind HAProxy. Needs root, see namespaces.ts. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { chown, mkdir, rm, writeFile } from 'node:fs/promises';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { postgresServerFolder } from '../../server/operate/setup/debian.mjs';
import { openDatabase } from '../../server/store/connect/pool.ts';
import { lookUpUser } from '../../server/store/embedded/account.ts';
import type { Overrides } from './app.ts';
import { lackingForNamespaces, type Machine, openNetwork } from './namespaces.ts';
import { startRedisCluster } from './redis.ts';
import { someKey } from './settings.ts';
import { until } from './wait.ts';
import { makeDataDir, startWeir, type Weir } from './weir.ts';

const BALANCER_PORT = 80;

/** What this machine lacks for the tests of machines; the empty string when it lacks nothing. */
export function lackingForMachines(): string {
  const lacking = lackingForNamespaces('nft', 'haproxy');
  return lacking !== '' || postgresServerFolder() !== undefined ? lacking : 'the server of Postgres from Debian';
}

export interface Machines {
  /** The machine of each installation; `cut` works on it. */
  readonly weirs: readonly { weir: Weir; machine: Machine }[];
  readonly database: Machine;
  readonly store: Machine;
  /** A port of 127.0.0.1 that leads to HAProxy. */
  readonly port: number;
  stop(): Promise<void>;
}

/** Starts the installations at the same time on an empty database. */
export async function startMachines(count: number, overrides: Overrides = {}): Promise<Machines> {
  const names = Array.from({ length: count }, (_, i) => `weir${i}`);
  const network = await openNetwork(...names, 'database', 'store', 'balancer');
  const undo: (() => Promise<void> | void)[] = [() => network.close()];
  const stop = async () => {
    for (const step of undo.splice(0).reverse()) await step();
  };
  try {
    const [database, store, balancer] = ['database', 'store', 'balancer'].map((name) => network.machine(name));
    const postgres = await startPostgres(database!);
    undo.push(postgres.stop);
    const nodes = await startRedisCluster(store!);
    undo.push(async () => void (await Promise.all(nodes.map((node) => node.stop()))));
    const port = await balancer!.door(BALANCER_PORT);
    const url = `http://127.0.0.1:${port}`;
    const settings = {
      DATABASE_URL: `postgresql://weir@${database!.address}/weir`,
      SECRETS_KEY: someKey,
      PUBLIC_URL: url,
      HOST: '0.0.0.0',
      WORKERS: 1,
      // A cut link answers nothing.
      COMMIT_TIMEOUT_MS: 5_000,
      RATE_LIMIT_BACKEND: 'shared',
      RATE_LIMIT_SHARED_URL: nodes.map((node) => node.url).join(','),
      TRUSTED_PROXIES: balancer!.address,
      ...overrides,
    };
    const starting = names.map(async (name) => {
      const machine = network.machine(name);
      const weir = await startWeir(settings, { machine, conninfo: postgres.conninfo });
      undo.push(() => weir.stop());
      return { weir, machine };
    });
    await Promise.allSettled(starting);
    const weirs = await Promise.all(starting);
    const proxy = await startProxy(balancer!, weirs);
    undo.push(proxy.stop);
    return { weirs, database: database!, store: store!, port, stop };
  } catch (error) {
    await stop();
    throw error;
  }
}

/** A Postgres that listens on the machine's address, with an empty database. `conninfo`: by its socket, which no cut reaches. */
async function startPostgres(machine: Machine): Promise<{ conninfo: string; stop: () => Promise<void> }> {
  const directory = await makeDataDir();
  const account = ((await lookUpUser('weir')) ?? (await lookUpUser('postgres')))!;
  await chown(directory, account.uid, account.gid);
  const data = join(directory, 'data');
  const binaries = postgresServerFolder()!;
  const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
  const initdb = ['--pgdata', data, '--username', 'weir', '--auth', 'trust', '--encoding', 'UTF8', '--no-sync'];
  await promisify(execFile)(join(binaries, 'initdb'), initdb, { cwd: '/', env, uid: account.uid, gid: account.gid });
  await writeFile(join(data, 'pg_hba.conf'), 'local all all trust\nhost all all samenet trust\n');
  // The data is deleted with the test.
  const settings = { listen_addresses: '*', unix_socket_directories: directory, max_connections: 200, fsync: 'off' };
  const options = Object.entries(settings).flatMap(([name, value]) => ['-c', `${name}=${value}`]);
  const asAccount = ['setpriv', `--reuid=${account.uid}`, `--regid=${account.gid}`, '--clear-groups'];
  const child = launch(machine, [...asAccount, join(binaries, 'postgres'), '-D', data, ...options]);
  const conninfo = (name: string) => `host=${directory} user=weir dbname=${name}`;
  const admin = openDatabase(conninfo('postgres'), { connectionsMax: 1, applicationName: 'test' });
  await until(() =>
    admin.query({ text: 'create database weir' }).then(
      () => true,
      () => false,
    ),
  );
  await admin.close();
  const stop = async () => {
    await ended(child, 'SIGQUIT');
    await rm(directory, { recursive: true, force: true });
  };
  return { conninfo: conninfo('weir'), stop };
}

/** Sends each request to a machine whose readyz is 200. */
async function startProxy(balancer: Machine, weirs: Machines['weirs']): Promise<{ stop: () => Promise<void> }> {
  const directory = await makeDataDir();
  await mkdir(join(directory, 'haproxy'));
  const file = join(directory, 'haproxy', 'haproxy.cfg');
  const servers = weirs.map(({ weir, machine }) => `  server ${machine.name} ${machine.address}:${weir.insidePort}`);
  const configuration = `
defaults
  mode http
  timeout connect 2s
  timeout client 60s
  timeout server 60s
frontend senders
  bind ${balancer.address}:${BALANCER_PORT}
  bind 127.0.0.1:${BALANCER_PORT}
  option forwardfor
  default_backend weir
backend weir
  balance roundrobin
  option httpchk
  http-check send meth GET uri /readyz ver HTTP/1.1 hdr Host weir
  timeout check 20s
  default-server check inter 1s fall 2 rise 1
  option redispatch
${servers.join('\n')}
`;
  await writeFile(file, configuration);
  const child = launch(balancer, ['haproxy', '-db', '-f', file]);
  const stop = async () => {
    await ended(child, 'SIGKILL');
    await rm(directory, { recursive: true, force: true });
  };
  return { stop };
}

function launch({ within }: Machine, words: string[]): ChildProcess {
  const [program, ...rest] = [...within, ...words];
  const env = { PATH: process.env.PATH, LC_ALL: 'C.UTF-8' };
  return spawn(program!, rest, { cwd: '/', env, stdio: 'ignore' });
}

async function ended(child: ChildProcess, signal: NodeJS.Signals): Promise<void> {
  if (child.exitCode !== null || child.signalCode !== null) return;
  const exit = new Promise((resolve) => child.once('exit', resolve));
  child.kill(signal);
  await exit;
}
