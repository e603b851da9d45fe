/** A complete Weir as an operator runs it: `weir start` as a child, with its own DATA_DIR, ports and processes. */
import { type ChildProcess, execFile, spawn } from 'node:child_process';
import { appendFile, chmod, mkdtemp, readdir, rm } from 'node:fs/promises';
import { get } from 'node:http';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { fileURLToPath } from 'node:url';
import { promisify } from 'node:util';
import { readSettings } from '../../server/base/settings/read.ts';
import type { NewWebhook } from '../../server/model/webhooks.ts';
import { type DatabasePool, openDatabase } from '../../server/store/connect/pool.ts';
import { loadSecretsKeys } from '../../server/store/secrets/keys.ts';
import { type Overrides, PATIENT, type TestApp } from './app.ts';
import type { Machine } from './namespaces.ts';
import { freePort } from './ports.ts';
import { type Sql, sqlOf } from './postgres.ts';
import { childrenOf, look, processesOf } from './processes.ts';
import { PATIENCE_MS, until } from './wait.ts';
import { made, newWebhook, webhooksOf } from './webhooks.ts';

const run = promisify(execFile);
const entryFile = fileURLToPath(new URL('../../dist/server/cli/weir.js', import.meta.url));

/** Limits high enough for all tests; two processes on any machine. */
const usual: Overrides = {
  ...PATIENT,
  WORKERS: 2,
  RATE_LIMIT_INGEST_MAX: 1_000_000_000,
  RATE_LIMIT_ANONYMOUS_MAX: 1_000_000_000,
  DRAIN_SECONDS: 10,
};

interface WeirChild {
  readonly child: ChildProcess;
  readonly pid: number;
  /** Complete lines of stdout so far. */
  readonly lines: string[];
  readonly stderr: () => string;
  /** The exit code or the signal that ended it, after its output was read completely. */
  readonly ended: Promise<number | NodeJS.Signals>;
  /** Log lines with this `event`, from the line with this number on. Throws when a line is not JSON. */
  events(name: string, from?: number): Record<string, unknown>[];
}

/**
 * Spawns `weir COMMAND` with nothing in its environment but these settings, or TMPDIR. `entry`: another installation's weir.js;
 * `directory`: where it looks for `.env`; `machine`: where it runs; `within`: words before the program.
 */
export function spawnWeir(
  settings: Overrides & { TMPDIR?: string; NODE_OPTIONS?: string },
  {
    command = ['start'],
    entry = entryFile,
    directory = tmpdir(),
    machine,
    within = machine?.within ?? [],
  }: {
    command?: string[];
    entry?: string;
    directory?: string;
    machine?: Machine | undefined;
    within?: readonly string[];
  } = {},
): WeirChild {
  const given = Object.entries(settings).map(([name, value]) => [name, String(value)]);
  const env = { PATH: process.env.PATH, ...Object.fromEntries(given) };
  const [program, ...words] = [...within, process.execPath, entry, ...command];
  const child = spawn(program!, words, {
    cwd: directory,
    env,
    stdio: ['ignore', 'pipe', 'pipe'],
  });
  const lines: string[] = [];
  let rest = '';
  let stderr = '';
  child.stdout.setEncoding('utf8').on('data', (text: string) => {
    const parts = (rest + text).split('\n');
    rest = parts.pop()!;
    lines.push(...parts);
  });
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    stderr += text;
  });
  const ended = new Promise<number | NodeJS.Signals>((resolve) =>
    child.once('close', (code, signal) => {
      if (rest !== '') lines.push(rest);
      resolve(code ?? signal!);
    }),
  );
  /** Tests that wait for an event ask often: each line is parsed once. */
  const parsed: Record<string, unknown>[] = [];
  const events = (name: string, from = 0) => {
    parsed.push(...lines.slice(parsed.length).map((line) => JSON.parse(line)));
    return parsed.filter(({ event }, number) => event === name && number >= from);
  };
  return { child, pid: child.pid!, lines, stderr: () => stderr, ended, events };
}

export interface Weir extends WeirChild {
  /** For a Weir on its own machine: the doors to its ports. */
  port: number;
  metricsPort: number;
  /** PORT of this Weir. */
  insidePort: number;
  /** Connection string of the test's database. */
  conninfo: string;
  dataDir: string;
  /** A pool for queries of the test. */
  database: DatabasePool;
  sql: Sql;
  /** Creates a webhook that all processes know when this resolves; optionally with a rate limit. */
  addWebhook(rateLimitMax?: number, rest?: Partial<NewWebhook>): Promise<{ id: string; path: string; secret: string }>;
  signal(signal: NodeJS.Signals): void;
  /** Serving processes, oldest first. */
  servingPids(): Promise<number[]>;
  /** Sum over the labels of a metric, from the metrics page. */
  metric(name: string): Promise<number>;
  /** Releases the resources of the test; Weir continues to run. */
  forget(): Promise<void>;
  /** Sends TERM and waits; kills remaining processes and removes the directory. */
  stop(): Promise<void>;
}

let template: Promise<string> | undefined;

/**
 * A DATA_DIR with a migrated database, copied from a template that is created once per process.
 * @param given an empty directory to use
 */
export async function copyDataDir(given?: string): Promise<string> {
  template ??= makeTemplate();
  const from = await template;
  const dataDir = given ?? (await makeDataDir());
  for (const name of await readdir(from)) {
    // The binaries are never written to. A given directory may be on another file system.
    const how = name === 'postgres-bin' && given === undefined ? '--link' : '--reflink=auto';
    await run('cp', ['--archive', how, join(from, name), dataDir]);
  }
  return dataDir;
}

async function makeTemplate(): Promise<string> {
  const dataDir = await makeDataDir();
  const migrate = spawnWeir({ DATA_DIR: dataDir }, { command: ['migrate'] });
  const code = await migrate.ended;
  if (code !== 0) throw new Error(`weir migrate ended with ${code}: ${migrate.stderr()}`);
  // Not 2 GB for each test that takes longer than some seconds.
  await appendFile(join(dataDir, 'postgres/postgresql.auto.conf'), `min_wal_size = '96MB'\n`);
  // Each Weir creates its own key.
  await rm(join(dataDir, 'secrets.key'));
  return dataDir;
}

/** A short path, because it contains a socket, that the account of Postgres can access. */
export async function makeDataDir(): Promise<string> {
  const dataDir = await mkdtemp(join(tmpdir(), 'weir-f-'));
  await chmod(dataDir, 0o711);
  return dataDir;
}

/**
 * Starts and waits until it listens; rejects with its output when it refuses. `DATA_DIR` and `PORT` reuse those of an earlier one. `conninfo`: how the test reaches
 * its database.
 */
export async function startWeir(
  overrides: Overrides & { NODE_OPTIONS?: string } = {},
  from: {
    entry?: string;
    directory?: string;
    machine?: Machine;
    within?: readonly string[];
    conninfo?: string;
  } = {},
): Promise<Weir> {
  const newDataDir = overrides.DATABASE_URL === undefined ? copyDataDir : makeDataDir;
  const dataDir = String(overrides.DATA_DIR ?? (await newDataDir()));
  const port = Number(overrides.PORT ?? (await freePort()));
  const metricsPort = await freePort();
  const settings = { ...usual, ...overrides, DATA_DIR: dataDir, PORT: port, METRICS_PORT: metricsPort };
  const started = spawnWeir(settings, from);
  const isUp = until(() => started.events('listening').length > 0);
  isUp.catch(() => {});
  const isUpOrEnded = Promise.race([isUp.then(() => null), started.ended]);
  const code = await isUpOrEnded.catch((error: Error) => error.message);
  if (code !== null) {
    started.child.kill('SIGKILL');
    await started.ended;
    if (overrides.DATA_DIR === undefined) await rm(dataDir, { recursive: true, force: true });
    throw new Error(`weir start ended with ${code}: ${started.stderr()}${started.lines.join('\n')}`);
  }
  const address = overrides.DATABASE_URL ?? `host='${dataDir}/postgres' port=5432 user=weir dbname=weir`;
  const conninfo = from.conninfo ?? String(address);
  const door = async (inside: number) => (await from.machine?.door(inside)) ?? inside;
  const [outside, metricsOutside] = [await door(port), await door(metricsPort)];
  const database = openDatabase(conninfo, { connectionsMax: 2, applicationName: 'weir-test', onError: () => {} });
  const text = Object.fromEntries(Object.entries(settings).map(([name, value]) => [name, String(value)]));
  const keys = loadSecretsKeys(readSettings(text, dataDir));
  const webhooks = webhooksOf({ database }, keys);
  let forgotten: Promise<void> | undefined;
  const forget = () => {
    forgotten ??= database.close();
    return forgotten;
  };
  return {
    ...started,
    port: outside,
    metricsPort: metricsOutside,
    insidePort: port,
    conninfo,
    dataDir,
    database,
    sql: sqlOf(database),
    async addWebhook(rateLimitMax, rest) {
      const secret = 'a secret between friends';
      const { id } = made(await webhooks.add(newWebhook({ rate_limit_max: rateLimitMax ?? null, secret, ...rest })));
      return { id, path: `/in/${id}`, secret };
    },
    signal: (signal) => void started.child.kill(signal),
    async servingPids() {
      const children = await Promise.all((await childrenOf(started.pid)).map(look));
      return children.flatMap((child) => (child?.command.endsWith('/server/main.js') ? [child.pid] : []));
    },
    async metric(name) {
      const { body } = await ask(metricsOutside, '/metrics');
      const values = body.split('\n').filter((line) => line.startsWith(`${name} `) || line.startsWith(`${name}{`));
      return values.reduce((sum, line) => sum + Number(line.slice(line.lastIndexOf(' '))), 0);
    },
    forget,
    async stop() {
      await forget();
      started.child.kill('SIGTERM');
      await started.ended;
      for (const { pid } of await processesOf(dataDir)) kill(pid, 'SIGKILL');
      await until(async () => (await processesOf(dataDir)).length === 0);
      await rm(dataDir, { recursive: true, force: true });
    },
  };
}

/** What the helpers of people and agents need of an app. */
export function asApp({ database, conninfo, port }: Pick<Weir, 'database' | 'conninfo' | 'port'>): TestApp {
  const url = `http://127.0.0.1:${port}`;
  return { database, sql: sqlOf(database), conninfo, url, settings: { PUBLIC_URL: url } } as TestApp;
}

/** A process that has exited since is ignored. */
export function kill(pid: number, signal: NodeJS.Signals): void {
  try {
    process.kill(pid, signal);
  } catch (error) {
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}

export interface Answer {
  status: number;
  headers: Record<string, string | string[] | undefined>;
  body: string;
}

/** GET on a new connection; rejects without a response. */
export function ask(port: number, path: string): Promise<Answer> {
  return new Promise((resolve, reject) => {
    const request = get({ host: '127.0.0.1', port, path, agent: false, timeout: PATIENCE_MS }, async (response) => {
      let body = '';
      for await (const chunk of response.setEncoding('utf8')) body += chunk;
      resolve({ status: response.statusCode!, headers: response.headers, body });
    });
    request.once('timeout', () => request.destroy(new Error(`no answer to ${path}`))).once('error', reject);
  });
}

/** Response of readyz; `null` without one. */
export async function readiness(
  port: number,
): Promise<{ status: number; retryAfter: unknown; checks: Record<string, string> } | null> {
  const answer = await ask(port, '/readyz').catch(() => null);
  if (answer === null) return null;
  const { checks } = JSON.parse(answer.body) as { checks: Record<string, string> };
  return { status: answer.status, retryAfter: answer.headers['retry-after'], checks };
}
