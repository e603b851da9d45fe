/** Weir as a contestant, started through the command line as a user starts it. */
import { execFile } from 'node:child_process';
import { randomBytes, randomUUID } from 'node:crypto';
import { mkdirSync } from 'node:fs';
import { join } from 'node:path';
import { promisify } from 'node:util';
import { CommandError } from '../../server/base/command/io.ts';
import { builtFile } from '../../server/base/files/build.ts';
import { nodeChildren, startArguments, startChild } from '../../server/operate/load/child.ts';
import { freePort } from '../../server/operate/load/environment.ts';
import { type BenchDatabase, openBenchDatabase } from './database.ts';
import type { BenchContext } from './outcome.ts';

/** A Weir that runs. */
export type RunningWeir = Awaited<ReturnType<typeof startWeir>>;

/**
 * Starts Weir on a shared database. Settings from the environment apply (THREADS=2 npm run bench ...), except for the
 * database and the addresses.
 */
export async function startWeir(
  options: Omit<BenchDatabase, 'database'> & {
    processes: number;
    /** NODE_OPTIONS of Weir's processes. */
    nodeOptions?: string;
    /** More settings. */
    settings?: Readonly<Record<string, string>>;
  },
) {
  const { conninfo, secretsKey, processes, secret, nodeOptions, settings } = options;
  const directory = join(options.directory, `weir-${processes}`);
  mkdirSync(directory);
  const [port, metricsPort] = [await freePort(), await freePort()];
  const environment = {
    ...process.env,
    HOST: '127.0.0.1',
    PORT: String(port),
    METRICS_PORT: String(metricsPort),
    PUBLIC_URL: `http://127.0.0.1:${port}`,
    FRONTEND_PUBLIC_API_URL: '',
    // Benches open many sessions from one address.
    RATE_LIMIT_AGENT_AUTH_MAX: '1000000',
    WORKERS: String(processes),
    DATA_DIR: directory,
    DATABASE_URL: conninfo,
    SECRETS_KEY: secretsKey,
    LOG_LEVEL: 'info',
    ...settings,
  };
  const startedMs = performance.now();
  const child = await startChild({
    name: `Weir with WORKERS=${processes}`,
    args: startArguments,
    environment: nodeOptions === undefined ? environment : { ...environment, NODE_OPTIONS: nodeOptions },
    directory,
    readyText: '"event":"listening"',
  });
  const startMs = performance.now() - startedMs;
  const command = async <Answer>(...words: string[]) => {
    const options = { cwd: directory, env: environment };
    const ended = promisify(execFile)(process.execPath, [builtFile('server/cli/weir.js'), ...words, '--json'], options);
    const { stdout } = await ended.catch(({ stderr, message }) => {
      throw new CommandError(stderr || message);
    });
    return JSON.parse(stdout) as Answer;
  };
  const members = ['--name', 'bench', '--secret', secret, '--rate-limit', '100000000'];
  /** Adds a webhook with the same secret and rate limit. @param cell default: home */
  const addWebhook = (cell = 0) =>
    command<{ id: string; url: string }>('webhook', 'add', ...members, '--cell', String(cell));
  /** Adds a cell. @param file has its connection string */
  const addCell = (file: string) => command('cell', 'add', '--database-file', file);
  /** Adds an agent that is subscribed to these webhooks. */
  const addAgent = (webhookIds: readonly string[]) => {
    const webhooks = webhookIds.flatMap((id) => ['--webhook', id]);
    return command<{ id: string; credential: string }>('agent', 'add', '--name', `bench ${randomUUID()}`, ...webhooks);
  };
  /** Creates an API token of a new user with the role viewer. */
  const addToken = async () => {
    const email = `${randomBytes(6).toString('hex')}@example.org`;
    await command('user', 'add', '--email', email, '--role', 'viewer');
    return (await command<{ token: string }>('token', 'add', '--email', email, '--name', 'bench')).token;
  };
  try {
    const { url } = await addWebhook();
    return {
      ...child,
      /** Ids of the serving processes. */
      processes: nodeChildren(child.pid),
      /** URL of a webhook that verifies with `secret`, with a rate limit that no bench reaches. */
      url,
      origin: new URL(url).origin,
      metricsUrl: `http://127.0.0.1:${metricsPort}/metrics`,
      /** From the start of the program to its listener. */
      startMs,
      addWebhook,
      addCell,
      addAgent,
      addToken,
    };
  } catch (error) {
    await child.stop();
    throw error;
  }
}

export type OpenedWeir = Awaited<ReturnType<typeof openWeir>>;

/** Starts Weir with one process on its own database; `context.undo` removes both. */
export async function openWeir(context: BenchContext) {
  const opened = await openBenchDatabase(context);
  const weir = await startWeir({ ...opened, processes: 1 });
  context.undo(() => weir.stop());
  return { ...opened, weir };
}
