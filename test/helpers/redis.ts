/** Real Redis servers for tests, each on a free port of 127.0.0.1, without data on disk after the stop. */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';
import type { Machine } from './namespaces.ts';
import { freePort } from './ports.ts';
import { until } from './wait.ts';

export interface RedisServer {
  url: string;
  port: number;
  pid: number;
  /** Stops it (also a paused one) and waits until it has exited. */
  stop(): Promise<void>;
  /** SIGSTOP: connections stay open without any response. */
  pause(): void;
  resume(): void;
  /** Runs one command with redis-cli; its output without the last newline. */
  cli(...words: string[]): Promise<string>;
}

export interface RedisOptions {
  /** A port that was used before, for a restarted store; else a free one. */
  port?: number;
  password?: string;
  /** More arguments for redis-server. */
  settings?: string[];
  /** Where it runs and listens; by default here, on 127.0.0.1. */
  machine?: Machine | undefined;
}

/** Starts a redis-server and waits until it responds. */
export async function startRedis({
  port: given,
  password,
  settings = [],
  machine,
}: RedisOptions = {}): Promise<RedisServer> {
  const port = given ?? (await freePort());
  const directory = await mkdtemp(join(tmpdir(), 'weir-redis-'));
  const words = [
    '--port',
    String(port),
    '--bind',
    '127.0.0.1',
    ...(machine ? [machine.address] : []),
    '--dir',
    directory,
    '--save',
    '',
    '--appendonly',
    'no',
  ];
  if (password !== undefined) words.push('--requirepass', password);
  if (machine !== undefined) words.push('--protected-mode', 'no');
  const [program, ...rest] = [...(machine?.within ?? []), 'redis-server', ...words, ...settings];
  const child = spawn(program!, rest, { stdio: 'ignore' });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const credentials = password === undefined ? {} : { REDISCLI_AUTH: password };
  const cli = async (...command: string[]) => {
    const env = { ...process.env, ...credentials };
    const [client, ...given] = [...(machine?.within ?? []), 'redis-cli', '-p', String(port), ...command];
    const { stdout } = await promisify(execFile)(client!, given, {
      env,
      timeout: 20_000,
    });
    return stdout.trimEnd();
  };
  const stop = async () => {
    child.kill('SIGKILL');
    await gone;
    await rm(directory, { recursive: true, force: true });
  };
  await until(async () => (await cli('ping').catch(() => '')) === 'PONG');
  const user = password === undefined ? '' : `:${encodeURIComponent(password)}@`;
  return {
    url: `redis://${user}${machine?.address ?? '127.0.0.1'}:${port}`,
    port,
    pid: child.pid!,
    stop,
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    cli,
  };
}

/** Offset of the cluster bus port. */
const BUS = 10_000;
const SLOTS = 16_384;

/** Starts three nodes and joins them to one Redis Cluster without replicas, all on one machine. */
export async function startRedisCluster(machine?: Machine): Promise<RedisServer[]> {
  const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '20000'];
  const nodes = await Promise.all(
    [0, 1, 2].map(async () => startRedis({ port: await freePort({ besides: BUS }), settings, machine })),
  );
  const share = Math.ceil(SLOTS / nodes.length);
  for (const [index, node] of nodes.entries()) {
    const [first, last] = [index * share, Math.min((index + 1) * share, SLOTS) - 1];
    await node.cli('cluster', 'addslotsrange', String(first), String(last));
    await node.cli('cluster', 'set-config-epoch', String(index + 1));
    await node.cli('cluster', 'meet', machine?.address ?? '127.0.0.1', String(nodes[0]!.port));
  }
  for (const node of nodes) {
    await until(async () => {
      const info = await node.cli('cluster', 'info');
      return info.includes('cluster_state:ok') && info.includes(`cluster_known_nodes:${nodes.length}`);
    });
  }
  return nodes;
}
