/**
 * Locks between the processes of one machine. The kernel holds them, so no lock outlives its holder.
 *
 * Node has no flock(2). util-linux's `flock` takes the lock in a helper process and then becomes `cat`, which reads a pipe from this
 * process. On release, crash or kill -9 the pipe closes, `cat` exits and the kernel frees the lock. No cleanup is needed.
 */
import { type ChildProcessByStdio, spawn } from 'node:child_process';
import { once } from 'node:events';
import { constants } from 'node:fs';
import { open, readFile, stat } from 'node:fs/promises';
import type { Readable, Writable } from 'node:stream';
import { OperatorError } from '../settings/fault.ts';

export interface Lock {
  /** Releases the lock; resolves when the kernel has freed it. Idempotent. */
  release(): Promise<void>;
}

/** The lock cannot be taken: no permission, no such directory, no `flock` on this machine, or held by another process for too long. */
export class LockError extends OperatorError {}

type Helper = ChildProcessByStdio<Writable, Readable, Readable>;

/** flock's exit code when another process holds the lock: distinct from flock's own errors (64 to 71) and a shell's (126 and above). */
const HELD_EXIT_CODE = 100;
/** A shell's exit code when a command does not exist. */
const NOT_FOUND_EXIT_CODE = 127;

/**
 * The helper ignores signals meant for Weir: a terminal's Ctrl-C (the helper has its own session) and a service manager's TERM to
 * all processes of the service (ignored; an ignored signal stays ignored across exec). It exits only when this process closes the pipe.
 */
const HELPER = `trap '' HUP INT TERM; exec flock "$@"`;

/** A signal may end a helper before it ignores signals. It is then started again, at most this many times. */
const STARTS_MAX = 20;

/** Permission bits of a lock file: any user who can open it can hold the lock and block every command. */
const LOCK_FILE_MODE = 0o600;
const LOCK_FILE_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Takes a lock on the file or directory `path` (a missing file is created). `shared` and `exclusive` locks exclude each other, and so do
 * two `exclusive` locks. A held lock does not keep the event loop alive. Throws LockError, which names the holder on timeout.
 * @param waitSeconds 0: returns `null` at once if another process holds the lock.
 * @param stopping ends the wait with a LockError. A lock that is held stays.
 */
export async function acquireLock(path: string, mode: 'shared' | 'exclusive', waitSeconds: 0): Promise<Lock | null>;
export async function acquireLock(
  path: string,
  mode: 'shared' | 'exclusive',
  waitSeconds: number,
  stopping?: AbortSignal,
): Promise<Lock>;
export async function acquireLock(
  path: string,
  mode: 'shared' | 'exclusive',
  waitSeconds: number,
  stopping?: AbortSignal,
): Promise<Lock | null> {
  await prepareFile(path);
  const timeout = waitSeconds === 0 ? ['--nonblock'] : ['--timeout', String(waitSeconds)];
  const flags = [`--${mode}`, ...timeout, '--conflict-exit-code', String(HELD_EXIT_CODE)];
  for (let starts = 1; ; starts++) {
    const { lock, failure } = await startHelper([...flags, '--no-fork', path, 'cat'], stopping);
    if (lock !== null) return lock;
    if (failure === 'held' && waitSeconds === 0) return null;
    if (failure === 'held')
      throw new LockError(
        `Cannot lock ${path}: it was held for ${waitSeconds} s, now by ${await describeHolder(path)}`,
        'end that process, or try again',
      );
    if (!/^SIG(HUP|INT|TERM)$/.test(failure) || starts === STARTS_MAX)
      throw new LockError(`Cannot lock ${path}: ${failure}`);
  }
}

/** Starts a helper and waits until it has the lock, or has ended: `failure` is then `held`, a signal, or a message. */
async function startHelper(
  flags: string[],
  stopping: AbortSignal | undefined,
): Promise<{ lock: Lock; failure: '' } | { lock: null; failure: string }> {
  const helper = spawn('sh', ['-c', HELPER, 'sh', ...flags], {
    cwd: '/',
    detached: true,
    stdio: ['pipe', 'pipe', 'pipe'],
  });
  let complaint = '';
  helper.stderr.on('data', (bytes) => {
    complaint += bytes;
  });
  const ended = new Promise<string>((resolve) => {
    helper.once('error', (error) => resolve(error.message));
    helper.once('close', (code, signal) =>
      resolve(code === HELD_EXIT_CODE ? 'held' : (signal ?? describe(code, complaint))),
    );
  });
  // cat echoes the byte. flock becomes cat only after it has taken the lock.
  helper.stdin.on('error', () => {});
  helper.stdin.write('\n');
  const stop = () => helper.kill('SIGKILL');
  if (stopping?.aborted) stop();
  stopping?.addEventListener('abort', stop);
  const failure = await Promise.race([ended, once(helper.stdout, 'data').then(() => '')]);
  stopping?.removeEventListener('abort', stop);
  if (failure !== '') return { lock: null, failure };
  const released = ended.then(() => {});
  setKeepAlive(helper, false);
  const release = () => {
    setKeepAlive(helper, true);
    helper.stdin.end();
    return released;
  };
  return { lock: { release }, failure };
}

/** @param complaint what the helper wrote to stderr. */
function describe(code: number | null, complaint: string): string {
  if (code === NOT_FOUND_EXIT_CODE) return 'the command flock is missing; install the package util-linux';
  return complaint.trim() || `exit code ${code}`;
}

/** Creates the file, and restricts one that an earlier release created readable for others. A directory is left unchanged, also behind a link. */
async function prepareFile(path: string): Promise<void> {
  try {
    const file = await open(path, LOCK_FILE_FLAGS, LOCK_FILE_MODE);
    // chmod fails on a file of another user; leave that file unchanged.
    await file.chmod(LOCK_FILE_MODE).catch(() => {});
    await file.close();
  } catch (error) {
    if (!(await stat(path).catch(() => null))?.isDirectory())
      throw new LockError(`Cannot lock ${path}: ${(error as Error).message}`);
  }
}

/** While a lock is held, neither the helper nor its pipes may keep an otherwise finished process alive. */
function setKeepAlive(helper: Helper, keep: boolean): void {
  const verb = keep ? 'ref' : 'unref';
  helper[verb]();
  for (const pipe of [helper.stdin, helper.stdout, helper.stderr])
    (pipe as unknown as { ref(): void; unref(): void })[verb]();
}

/** Describes the holder, such as `process 4242 (user 1000)`, or reports it as hidden if the kernel does not show it (another container). */
export async function describeHolder(path: string): Promise<string> {
  const hidden = 'a process that cannot be seen from here';
  try {
    const pid = await holderOf(path);
    return pid === null ? hidden : `process ${pid} (user ${(await stat(`/proc/${pid}`)).uid})`;
  } catch {
    return hidden;
  }
}

/** The process that took the lock; null if there is none or it is hidden. */
async function holderOf(path: string): Promise<number | null> {
  const { dev, ino } = await stat(path, { bigint: true });
  const file = `${major(dev)}:${minor(dev)}:${ino}`;
  // `3: FLOCK  ADVISORY  WRITE 4242 08:01:1311 0 EOF`; waiting processes have an arrow after the number.
  for (const line of (await readFile('/proc/locks', 'utf8')).split('\n')) {
    const [, kind, , , pid, where] = line.split(/ +/);
    if (kind === 'FLOCK' && where === file && Number(pid) > 0) return behindHelper(Number(pid));
  }
  return null;
}

/** Weir locks through a helper that runs `cat`: returns the helper's parent, which is the process that the user looks for. */
async function behindHelper(pid: number): Promise<number> {
  const text = await readFile(`/proc/${pid}/stat`, 'utf8');
  const nameEnd = text.lastIndexOf(')');
  const name = text.slice(text.indexOf('(') + 1, nameEnd);
  const parent = Number(text.slice(nameEnd + 2).split(' ')[1]);
  return name === 'cat' && parent > 1 ? parent : pid;
}

/** The two parts of a device number in the format of /proc/locks (glibc's gnu_dev_major and gnu_dev_minor), in hex. */
function major(dev: bigint): string {
  return (((dev >> 8n) & 0xfffn) | ((dev >> 32n) & ~0xfffn)).toString(16).padStart(2, '0');
}

function minor(dev: bigint): string {
  return ((dev & 0xffn) | ((dev >> 12n) & ~0xffn)).toString(16).padStart(2, '0');
}
