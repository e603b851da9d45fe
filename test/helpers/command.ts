/** The command line on the database of an app, as on a machine where Weir runs. */
import { mkdtemp, rm } from 'node:fs/promises';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { PassThrough, Readable } from 'node:stream';
import { runCommand } from '../../server/cli/weir.ts';
import type { TestApp } from './app.ts';
import { someKey } from './settings.ts';

export interface Told {
  code: number;
  out: string;
  err: string;
}

/** Runs `weir ARGS` to its end. */
export async function weir({ conninfo }: TestApp, ...args: string[]): Promise<Told> {
  const directory = await mkdtemp(join(tmpdir(), 'weir-c-'));
  try {
    const [stdout, stderr] = [new PassThrough(), new PassThrough()];
    const environment = { DATABASE_URL: conninfo, SECRETS_KEY: someKey, DATA_DIR: directory, WORKERS: '1' };
    const code = await runCommand(args, { environment, directory, stdin: Readable.from(['']), stdout, stderr });
    return { code, out: String(stdout.read() ?? ''), err: String(stderr.read() ?? '') };
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** The same with --json: the document. Throws when the command fails. */
// biome-ignore lint/suspicious/noExplicitAny: a JSON document, looked into by tests
export async function weirJson(app: TestApp, ...args: string[]): Promise<any> {
  const { code, out, err } = await weir(app, ...args, '--json');
  if (code !== 0 || err !== '') throw new Error(`weir ${args.join(' ')} ended with ${code}: ${err}`);
  return JSON.parse(out);
}
