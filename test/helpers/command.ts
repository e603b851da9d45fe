/** The command line in the process of the test: on the database of an app, or in a separate directory without a server. */
import { chmod, mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { fileURLToPath } from 'node:url';
import { expect } from 'vitest';
import type { CommandEntry } from '../../server/cli/command/program.ts';
import { runCommand } from '../../server/cli/command/run-command.ts';
import { commands } from '../../server/cli/commands.ts';
import { joinEmbeddedPostgres } from '../../server/store/embedded/join.ts';
import { type Overrides, startTestApp, type TestApp } from './app.ts';
import { someKey } from './settings.ts';

export interface CommandResult {
  code: number;
  out: string;
  err: string;
}

/** Runs `weir ARGS` on the machine of an app: over its socket, or on its database. */
export function weir(app: TestApp, ...args: string[]): Promise<CommandResult> {
  return weirWith(app, {}, ...args);
}

/** Runs it with additional settings, of the command only. */
export function weirWith(
  { conninfo, settings: { DATA_DIR, SECRETS_KEY = someKey } }: TestApp,
  environment: Record<string, string>,
  ...args: string[]
): Promise<CommandResult> {
  return run(DATA_DIR, { DATABASE_URL: conninfo, DATA_DIR, SECRETS_KEY, ...environment }, args);
}

/** Runs `weir ARGS` on a database, where no Weir serves. */
export function weirOn(conninfo: string, ...args: string[]): Promise<CommandResult> {
  return weirOnWith(conninfo, {}, ...args);
}

/** Runs it with additional settings. */
export async function weirOnWith(
  conninfo: string,
  environment: Record<string, string>,
  ...args: string[]
): Promise<CommandResult> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-c-'));
  try {
    const given = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: directory, ...environment };
    return await run(directory, given, args);
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Expects that a command fails, with a reason that contains or matches this. */
export async function expectRefused(running: Promise<CommandResult>, reason: string | RegExp): Promise<void> {
  const { code, err } = await running;
  expect([code, err]).toEqual([1, expect.stringMatching(reason)]);
}

/** Runs `weir ARGS --json` and returns the document. Throws when the command fails. */
// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
export async function weirJson(app: TestApp, ...args: string[]): Promise<any> {
  const { code, out, err } = await weir(app, ...args, '--json');
  if (code !== 0 || err !== '') throw new Error(`weir ${args.join(' ')} ended with ${code}: ${err}`);
  return JSON.parse(out);
}

/** A directory in which commands run, and their database. */
export interface Installation {
  /** Runs `weir ARGS`. */
  weir(args: readonly string[], stdin?: string, environment?: Record<string, string>): Promise<CommandResult>;
  stop(): Promise<void>;
}

/** An app, and commands beside it. */
export async function makeInstallation(overrides: Overrides = {}): Promise<Installation> {
  const app = await startTestApp({ SECRETS_KEY: someKey, ...overrides });
  const { conninfo, settings } = app;
  const given = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: settings.DATA_DIR };
  return {
    weir: (args, stdin, environment) => run(settings.DATA_DIR, { ...given, ...environment }, args, stdin),
    stop: () => app.stop(),
  };
}

/** A directory with an embedded Postgres that runs already; otherwise each command would start and stop it. No Weir serves. */
export async function makeEmbeddedInstallation(): Promise<Installation & { dataDir: string; conninfo: string }> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-cli-'));
  await chmod(directory, 0o711);
  const postgres = await joinEmbeddedPostgres({ dataDir: join(directory, 'data'), maxConnections: 100, log: () => {} });
  await run(directory, { DATA_DIR: 'data' }, ['migrate']);
  return {
    dataDir: join(directory, 'data'),
    conninfo: postgres.conninfo,
    weir: (args, stdin, environment) => run(directory, { DATA_DIR: 'data', ...environment }, args, stdin),
    async stop() {
      await postgres.leave();
      await rm(directory, { recursive: true });
    },
  };
}

const workers = fileURLToPath(new URL('../../dist/workers', import.meta.url));

function run(
  directory: string,
  given: Record<string, string>,
  args: readonly string[],
  stdin = '',
): Promise<CommandResult> {
  return runCommands(commands, directory, given, args, stdin);
}

/** Runs one of these commands, such as those of the client package. */
export async function runCommands(
  commands: readonly CommandEntry[],
  directory: string,
  given: Record<string, string>,
  args: readonly string[],
  stdin = '',
): Promise<CommandResult> {
  const [stdout, stderr] = [new PassThrough(), new PassThrough()];
  const environment = { WORKERS: '1', ...given };
  const io = { environment, directory, stdin: Readable.from([stdin]), stdout, stderr, workers };
  const code = await runCommand(commands, args, io);
  return { code, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') };
}
