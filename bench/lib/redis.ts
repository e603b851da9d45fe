/** A Redis that flushes each write to the disk before it answers, for the contestants that need one. */
import { spawn, spawnSync } from 'node:child_process';
import { mkdir } from 'node:fs/promises';
import { join } from 'node:path';
import { Redis } from 'ioredis';
import { within } from '../../server/base/time/every.ts';
import { freePort } from '../../server/operate/load/environment.ts';
import type { BenchContext } from './outcome.ts';

export interface BenchRedis {
  port: number;
  pid: number;
  version: string;
  client: Redis;
}

const START_MS = 10_000;

/** Starts redis-server in `directory`; `undo` stops it. Null when it is not installed. */
export async function startRedis({ undo }: Pick<BenchContext, 'undo'>, directory: string): Promise<BenchRedis | null> {
  const { error, stdout } = spawnSync('redis-server', ['--version'], { encoding: 'utf8' });
  if (error !== undefined) return null;
  const port = await freePort();
  const dir = join(directory, 'redis');
  await mkdir(dir);
  const flushes = ['--appendonly', 'yes', '--appendfsync', 'always', '--save', '', '--maxmemory-policy', 'noeviction'];
  const args = ['--port', String(port), '--bind', '127.0.0.1', '--dir', dir, ...flushes];
  const server = spawn('redis-server', args, { stdio: 'ignore' });
  const ended = new Promise((resolve) => server.once('exit', resolve));
  undo(async () => {
    server.kill();
    await ended;
  });
  const client = new Redis({ host: '127.0.0.1', port, lazyConnect: true, retryStrategy: () => 50 });
  client.on('error', () => {});
  undo(() => client.disconnect());
  if ((await within(START_MS, client.ping())) === undefined) throw new Error('redis-server did not answer');
  return { port, pid: server.pid!, version: /v=([\d.]+)/.exec(stdout)?.[1] ?? 'unknown', client };
}
