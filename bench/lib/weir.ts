/** Weir itself as a contestant: started as a user starts it, with the command line. */
import { randomBytes } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { type Child, freePort, runToEnd, startChild } from './child.ts';
import { weirFile } from './paths.ts';
import { nodeChildren } from './resident.ts';

export interface RunningWeir extends Child {
  /** Ids of its serving processes. */
  processes: number[];
  /** An endpoint that verifies with `secret` and has no rate limit to speak of. */
  url: string;
}

/**
 * Starts Weir on a database that others use too. Settings of the environment hold (THREADS=2 npm run bench ...), besides those
 * of the database and the addresses.
 */
export async function startWeir(options: {
  directory: string;
  conninfo: string;
  processes: number;
  secret: string;
}): Promise<RunningWeir> {
  const { conninfo, processes, secret } = options;
  const directory = join(options.directory, `weir-${processes}`);
  mkdirSync(directory);
  const port = await freePort();
  const environment = {
    ...process.env,
    HOST: '127.0.0.1',
    PORT: String(port),
    METRICS_PORT: String(await freePort()),
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    FRONTEND_PUBLIC_API_URL: '',
    WORKERS: String(processes),
    DATA_DIR: directory,
    DATABASE_URL: conninfo,
    SECRETS_KEY: randomBytes(32).toString('base64'),
    LOG_LEVEL: 'info',
  };
  const child = await startChild({
    name: `Weir with WORKERS=${processes}`,
    args: [weirFile, 'start'],
    environment,
    directory,
    readyText: '"event":"listening"',
  });
  try {
    const limit = ['--rate-limit', '100000000'];
    const added = await runToEnd(
      [weirFile, 'webhook', 'add', '--name', 'bench', '--secret', secret, ...limit, '--json'],
      environment,
      directory,
    );
    return { ...child, processes: nodeChildren(child.pid), url: (JSON.parse(added) as { url: string }).url };
  } catch (error) {
    await child.stop();
    throw error;
  }
}
