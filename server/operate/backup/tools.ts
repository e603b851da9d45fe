/** pg_dump, pg_restore and psql of the operating system. The packages of the embedded Postgres contain none of them. */
import { execFile, spawn } from 'node:child_process';
import { once } from 'node:events';
import { access, readdir } from 'node:fs/promises';
import { delimiter, join } from 'node:path';
import { createInterface } from 'node:readline';
import type { Readable, Writable } from 'node:stream';
import { promisify } from 'node:util';
import { OperatorError } from '../../model/fault.ts';
import { findableConninfo, splitPassword } from '../../store/connect/conninfo.ts';

const run = promisify(execFile);

/** A backup or restore that cannot be made; the message gives the reason and the fix. */
export class BackupError extends OperatorError {}

/** An installation of the three programs. */
export interface Tools {
  directory: string;
  /** Major version of Postgres. */
  major: number;
}

/** Debian's packages: one directory for each major version. */
const VERSIONED = '/usr/lib/postgresql';
/** Lines of a program's complaint that are shown. */
const COMPLAINT_LINES_MAX = 5;

/** The installed programs that fit a server of this version, best first: its own version, then newer ones. Throws BackupError. */
export async function findTools(serverMajor: number, path = process.env.PATH ?? ''): Promise<Tools[]> {
  const versioned = (await readdir(VERSIONED).catch(() => [])).map((name) => join(VERSIONED, name, 'bin'));
  const found: Tools[] = [];
  for (const directory of [...versioned, ...path.split(delimiter).filter((entry) => entry !== '')]) {
    const major = await majorOf(directory);
    if (major !== null) found.push({ directory, major });
  }
  const usable = found.filter(({ major }) => major >= serverMajor).sort((a, b) => a.major - b.major);
  if (usable.length > 0) return usable;
  const has =
    found.length === 0 ? 'none is installed' : `only ${found.map(({ major }) => major).join(', ')} is installed`;
  throw new BackupError(
    `The server is Postgres ${serverMajor}, which needs pg_dump, pg_restore and psql of version ${serverMajor} or newer, and ${has}`,
    `install the package postgresql-client-${serverMajor} (Debian: apt-get install postgresql-client)`,
  );
}

/** Null when a program is missing. */
async function majorOf(directory: string): Promise<number | null> {
  try {
    for (const name of ['pg_dump', 'pg_restore', 'psql']) await access(join(directory, name));
    const { stdout } = await run(join(directory, 'pg_dump'), ['--version']);
    return Number(/\d+/.exec(stdout)![0]);
  } catch {
    return null;
  }
}

interface ToolOptions {
  /** The database; its password is passed by the environment, which only this user can read. */
  conninfo?: string;
  /** Called with each line on stderr. */
  onLine?: (line: string) => void;
  /** Receives stdout; resolves when it has read everything. */
  read?: (stdout: Readable) => Promise<void>;
  /** Writes stdin; resolves when it has written everything. */
  write?: (stdin: Writable) => Promise<void>;
  signal?: AbortSignal | undefined;
}

/** Runs a program to its end. Throws BackupError with what it wrote to stderr. */
export async function runTool(
  { directory }: Tools,
  name: 'pg_dump' | 'pg_restore' | 'psql',
  flags: readonly string[],
  { conninfo, onLine, read, write, signal }: ToolOptions,
): Promise<void> {
  const to = conninfo === undefined ? null : splitPassword(findableConninfo(conninfo));
  const child = spawn(join(directory, name), [...flags, ...(to === null ? [] : [`--dbname=${to.withoutPassword}`])], {
    env: environmentOf(to?.password),
    stdio: ['pipe', 'pipe', 'pipe'],
    signal,
  });
  const complaint: string[] = [];
  createInterface({ input: child.stderr }).on('line', (line) => {
    onLine?.(line);
    // With --verbose, progress comes before the complaint.
    if (complaint.length > 0 || /(error|fatal):/i.test(line)) complaint.push(line);
  });
  const ended = once(child, 'close') as Promise<[number | null, NodeJS.Signals | null]>;
  ended.catch(() => {});
  if (read === undefined) child.stdout.resume();
  child.stdin.on('error', () => {});
  // A program that exits early closes its pipes; its complaint is the reason then, not the pipe.
  const piped = await Promise.allSettled([read?.(child.stdout), write?.(child.stdin)]);
  const broken = piped.find((one) => one.status === 'rejected');
  if (broken === undefined) child.stdin.end();
  else child.kill();
  let code: number | null;
  let killedBy: NodeJS.Signals | null;
  try {
    [code, killedBy] = await ended;
  } catch (error) {
    throw signal?.aborted ? stopped() : new BackupError(`${name} cannot be run: ${(error as Error).message}`);
  }
  if (code === 0 && broken === undefined) return;
  if (signal?.aborted) throw stopped();
  const reason = complaint.slice(0, COMPLAINT_LINES_MAX).join('\n');
  if (reason === '' && broken !== undefined) throw broken.reason;
  throw new BackupError(`${name} failed: ${reason || (killedBy ?? `exit code ${code}`)}`);
}

/** Writes at the speed at which the program reads. Rejects when it has exited. */
export async function send(stdin: Writable, part: Buffer): Promise<void> {
  if (stdin.destroyed) throw new Error('the program has exited');
  if (stdin.write(part)) return;
  const over = new AbortController();
  const first = ['drain', 'close'].map((event) => once(stdin, event, { signal: over.signal }));
  // Without the abort, each wait would leave its listeners behind.
  await Promise.race(first).finally(() => over.abort());
}

function stopped(): BackupError {
  return new BackupError('Stopped by a signal');
}

/** Only what libpq reads, and no locale: messages are parsed. */
function environmentOf(password: string | undefined): NodeJS.ProcessEnv {
  const kept = Object.entries(process.env).filter(([name]) => /^(PG\w+|PATH|HOME|TMPDIR)$/.test(name));
  return { ...Object.fromEntries(kept), LC_ALL: 'C', ...(password === undefined ? {} : { PGPASSWORD: password }) };
}
