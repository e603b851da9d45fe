/** Real Redis servers for tests, each on a free port of 127.0.0.1, keeping nothing on disk after they stop. */
import { execFile, spawn } from 'node:child_process';
import { mkdtemp, rm } from 'node:fs/promises';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { setTimeout as sleep } from 'node:timers/promises';
import { promisify } from 'node:util';

export interface RedisServer {
  url: string;
  port: number;
  pid: number;
  /** Ends it (also a paused one) and waits until it is gone. */
  stop(): Promise<void>;
  /** SIGSTOP: connections stay open, nothing answers. */
  pause(): void;
  resume(): void;
  /** One command by redis-cli; its output without the last newline. */
  cli(...words: string[]): Promise<string>;
}

export interface RedisOptions {
  /** A port that was in use before, for a store that comes back; else a free one. */
  port?: number;
  password?: string;
  /** More words for redis-server. */
  settings?: string[];
}

/** Starts a redis-server and waits until it answers. */
export async function startRedis({ port: given, password, settings = [] }: RedisOptions = {}): Promise<RedisServer> {
  const port = given ?? (await freePort());
  const directory = await mkdtemp(join(tmpdir(), 'weir-redis-'));
  const words = ['--port', String(port), '--bind', '127.0.0.1', '--dir', directory, '--save', '', '--appendonly', 'no'];
  if (password !== undefined) words.push('--requirepass', password);
  const child = spawn('redis-server', [...words, ...settings], { stdio: 'ignore' });
  const gone = new Promise<void>((resolve) => child.once('exit', () => resolve()));
  const credentials = password === undefined ? {} : { REDISCLI_AUTH: password };
  const cli = async (...command: string[]) => {
    const env = { ...process.env, ...credentials };
    const { stdout } = await promisify(execFile)('redis-cli', ['-p', String(port), ...command], { env, timeout: 5000 });
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
    url: `redis://${user}127.0.0.1:${port}`,
    port,
    pid: child.pid!,
    stop,
    pause: () => void child.kill('SIGSTOP'),
    resume: () => void child.kill('SIGCONT'),
    cli,
  };
}

/** Starts three nodes and joins them to one Redis Cluster without replicas. */
export async function startRedisCluster(): Promise<RedisServer[]> {
  const settings = ['--cluster-enabled', 'yes', '--cluster-node-timeout', '2000'];
  const nodes = await Promise.all([0, 1, 2].map(async () => startRedis({ port: await clusterPort(), settings })));
  const places = nodes.map((node) => `127.0.0.1:${node.port}`);
  await nodes[0]!.cli('--cluster', 'create', ...places, '--cluster-yes');
  for (const node of nodes) await until(async () => (await node.cli('cluster', 'info')).includes('cluster_state:ok'));
  return nodes;
}

/** Looks every 10 ms until `holds` is true; throws after 10 s. */
export async function until(holds: () => boolean | Promise<boolean>, timeoutMs = 10_000): Promise<void> {
  const endMs = performance.now() + timeoutMs;
  while (!(await holds())) {
    if (performance.now() > endMs) throw new Error(`still not so after ${timeoutMs} ms: ${holds}`);
    await sleep(10);
  }
}

export function freePort(): Promise<number> {
  return new Promise((resolve, reject) => {
    const server = createServer().once('error', reject);
    server.listen(0, '127.0.0.1', () => {
      const { port } = server.address() as { port: number };
      server.close(() => resolve(port));
    });
  });
}

/** The bus of a cluster node listens 10,000 ports higher. */
async function clusterPort(): Promise<number> {
  for (;;) {
    const port = await freePort();
    if (port < 55_536) return port;
  }
}
