/**
 * Start parameters of the serving processes: entry file, Node flags and user. Under root, the user is the system user `weir` when it can
 * serve. The primary stays root: it owns DATA_DIR with the keys and the locks, shares both with commands run by root, and starts the
 * embedded Postgres as its own user.
 */
import { spawn } from 'node:child_process';
import cluster from 'node:cluster';
import { once } from 'node:events';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import { text } from 'node:stream/consumers';
import type { Settings } from '../../base/settings/read.ts';
import { lookUpUser, SYSTEM_USER } from '../../store/embedded/account.ts';

/** Parameters to start a process as another user. */
export interface ServingUser {
  uid: number;
  gid: number;
  /** Changes to the environment. */
  env: NodeJS.ProcessEnv;
}

export type Choice =
  /** `user` is null for the user of the primary, which is not root. */
  | { kind: 'user'; user: ServingUser | null }
  /** The processes must run as root: the reason, and how to fix it. */
  | { kind: 'root'; reason: string; fix: string };

export interface TrialOrder {
  conninfo: string;
  host: string;
  port: number;
}

export type TrialResult = { failed: null } | { failed: 'database' | 'port'; reason: string };

/** Loading takes less than a second, but the machine may be busy at boot. */
const TRIAL_TIMEOUT_MS = 30_000;

/**
 * Under root, runs a trial as the system user: it must read the installation, connect to the database and bind the port.
 * @param trialFile compiled trial.ts
 * @param conninfo a database that is running, or away: then it decides nothing.
 */
export async function chooseServingUser(trialFile: string, settings: Settings, conninfo: string): Promise<Choice> {
  if (process.getuid!() !== 0) return { kind: 'user', user: null };
  const account = await lookUpUser(SYSTEM_USER);
  if (account === null)
    return {
      kind: 'root',
      reason: `there is no user ${SYSTEM_USER}`,
      fix: `useradd --system --no-create-home --shell /usr/sbin/nologin ${SYSTEM_USER}`,
    };
  // Without HOME, libpq uses the user's home directory; libpq fails on a HOME that it may not enter.
  const user = {
    uid: account.uid,
    gid: account.gid,
    env: { HOME: undefined, USER: SYSTEM_USER, LOGNAME: SYSTEM_USER },
  };
  const result = await runTrial(trialFile, user, { conninfo, host: settings.HOST, port: settings.PORT });
  if (result.failed === null) return { kind: 'user', user };
  return { kind: 'root', reason: describe(result), fix: fixFor(result.failed, settings, trialFile) };
}

type Failure = Exclude<TrialResult, { failed: null }> | { failed: 'become' | 'load'; reason: string };

function describe({ failed, reason }: Failure): string {
  if (failed === 'become') return `Weir cannot switch from root to the user ${SYSTEM_USER}: ${reason}`;
  if (failed === 'load') return `the user ${SYSTEM_USER} cannot run this installation: ${reason}`;
  if (failed === 'database') return `the user ${SYSTEM_USER} cannot connect to the database: ${reason}`;
  return `the user ${SYSTEM_USER} cannot listen: ${reason}`;
}

function fixFor(failed: Failure['failed'], { database, DATA_DIR }: Settings, trialFile: string): string {
  if (failed === 'become') return `start Weir as the user ${SYSTEM_USER}`;
  if (failed === 'load') {
    const root = join(dirname(trialFile), '../../../..');
    return `move ${root} to a directory that every user can access, such as /srv/weir, or run: chmod -R go+rX ${root} (and chmod go+x the directories above it)`;
  }
  if (failed === 'database')
    return database.kind === 'embedded'
      ? `stop Weir, then run: chown -R ${SYSTEM_USER}: ${join(DATA_DIR, 'postgres')}`
      : `let the user ${SYSTEM_USER} read the files that DATABASE_URL names`;
  return 'choose a PORT above 1023 and put a proxy in front, or run Weir as a systemd service with CAP_NET_BIND_SERVICE (see views/docs/operating.md#as-a-systemd-service)';
}

async function runTrial(trialFile: string, user: ServingUser, order: TrialOrder): Promise<TrialResult | Failure> {
  const { uid, gid } = user;
  try {
    // Throws EPERM without an event, unlike ENOENT.
    const child = spawn(process.execPath, [trialFile], {
      uid,
      gid,
      env: { ...process.env, ...user.env },
      timeout: TRIAL_TIMEOUT_MS,
      killSignal: 'SIGKILL',
    });
    // A trial that ends early does not read its input.
    child.stdin.on('error', () => {});
    child.stdin.end(JSON.stringify(order));
    const [stdout, stderr] = await Promise.all([text(child.stdout), text(child.stderr), once(child, 'close')]);
    return stdout === '' ? { failed: 'load', reason: firstError(stderr) } : (JSON.parse(stdout) as TrialResult);
  } catch (error) {
    // EPERM: root in a container without CAP_SETUID. Any other error: the Node executable cannot be run.
    const { code, message } = error as NodeJS.ErrnoException;
    return { failed: code === 'EPERM' ? 'become' : 'load', reason: message };
  }
}

/** The line of Node's error output that states the error. */
function firstError(stderr: string): string {
  const lines = stderr.split('\n').map((line) => line.trim());
  return lines.find((line) => /^(\[?\w*Error\b|node:.*EACCES)/.test(line)) ?? lines.find(Boolean) ?? 'no response';
}

/**
 * Returns the path of the compiled main.js, derived from the path that started Weir. When that path contains a symbolic link to a release,
 * the link is resolved at each fork: after it changes to another release, new processes run that release.
 * @param own real path of the main.js beside this build.
 * @param startedBy `process.argv[1]`. A link to weir.js itself (npx, /usr/local/bin) has no main.js beside it; the result is then `own`.
 */
export function findEntryFile(own: string, startedBy: string | undefined): string {
  const followed = join(dirname(startedBy ?? '/'), '../main.js');
  try {
    return realpathSync(followed) === own ? followed : own;
  } catch {
    return own;
  }
}

/**
 * Helper threads of the garbage collector take cores from Postgres: without them a request costs about 9 % less CPU. A larger nursery
 * (--max-semi-space-size=32) made no further difference, and cost 28 MB a process (A/B, 7 rounds each, two cores).
 *
 * V8 pretenures allocation sites whose objects survive a scavenge: it allocates them in the old space. A short slowdown of the machine
 * causes this for objects of a request. Their garbage then waits for a mark-compact: 200 to 235 MB in 4 of 15 runs, 150 to 163 MB in
 * 9 of 9 without pretenuring.
 */
export const gcFlags = ['--single-threaded-gc', '--no-allocation-site-pretenuring'];

/** Room for a request line beside as many headers as HEADER_BYTES_MAX allows. Beside fewer, it may be longer. */
const REQUEST_LINE_BYTES = 2_048;

/**
 * Environment of each serving process.
 *
 * uWebSockets.js reads its own limit of a request line with its headers from the environment when it is loaded, and buffers that much of
 * an unfinished one. Above it, it answers 431: on Node 24 every request, on Node 20 those that TCP cuts. Its default of 4,096 bytes is
 * below HEADER_BYTES_MAX. 3,000 connections, each with an unfinished head of this length, took 563 MiB with a limit of 131,072 bytes, and
 * 54 with 18,432 (16,384 + 2,048); 79 when the heads come in pieces, because the buffer doubles.
 *
 * libuv has four threads by default, and libpq connects in them. While Postgres is frozen, the two COPY connections and those of the pool
 * take all of them for 5 s at a time (connect_timeout), and the spool's writes wait. 8 senders during 44 s of a stopped Postgres, beside
 * 4 clients of the API: with 4 threads 1,137 and 1,070 answers 202, p99 9.9 and 12.6 s, up to 7.8 s without any; with 16 threads 5,145,
 * p99 0.3 s, and 3.0 s without any, which is the time limit of a commit.
 *
 * glibc raises its threshold for mmap to the largest block that was freed, up to 32 MB. Slabs (1 MiB) and COPY buffers (up to 8 MiB) then
 * come from the heap, which keeps their pages after they are freed. A fixed threshold below a slab returns them to the system: 169 to 182
 * MB for 184 to 192 after 1 KiB, 1 MiB and 1 KiB again; no more CPU was seen (bench/NOTES.md). A C library other than glibc ignores it.
 * @param own environment of the primary: the operator's values are kept. @param headerBytesMax HEADER_BYTES_MAX
 */
export function processEnvironment(own: NodeJS.ProcessEnv, headerBytesMax: number): Record<string, string> {
  return {
    UWS_HTTP_MAX_HEADERS_SIZE: String(headerBytesMax + REQUEST_LINE_BYTES),
    UV_THREADPOOL_SIZE: own.UV_THREADPOOL_SIZE || '16',
    MALLOC_MMAP_THRESHOLD_: own.MALLOC_MMAP_THRESHOLD_ || '1000000',
  };
}

/**
 * Configures later forks to run `entryFile`, which is resolved at each fork.
 * @param user null: the user of the primary.
 */
export function prepareForks(entryFile: string, user: ServingUser | null): void {
  const ids = user === null ? {} : { uid: user.uid, gid: user.gid };
  cluster.setupPrimary({
    ...ids,
    exec: entryFile,
    args: [],
    execArgv: gcFlags,
    silent: true,
    serialization: 'advanced',
  });
}
