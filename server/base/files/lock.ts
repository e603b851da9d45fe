/**
 * Locks between the processes of one machine. Node has no flock(2). A lock belongs to an open file, so the command `flock` of util-linux can
 * lock a file that this process has opened, and exit. When the file is closed, also by a crash or kill -9, the kernel frees the lock. Node
 * closes its files on exec, so no child inherits the lock.
 */
import { spawn } from 'node:child_process';
import { closeSync, constants, fstatSync, openSync, statSync } from 'node:fs';
import { readdir, readFile, stat } from 'node:fs/promises';
import { OperatorError } from '../../model/fault.ts';

export interface Lock {
  /** Releases the lock; resolves when the kernel has freed it. Idempotent. */
  release(): Promise<void>;
}

/** The lock cannot be taken: no permission, no such directory, no `flock` on this machine, or held by another process for too long. */
export class LockError extends OperatorError {}

/** flock's exit code when another process holds the lock: distinct from flock's own errors (64 to 71). */
const HELD_EXIT_CODE = 100;
/** A service manager may end a waiting `flock` with all processes of the service. The command is then started again: at most 20 starts. */
const STARTS_MAX = 20;

/** Permission bits of a lock file: any user who can open it can hold the lock and block every command. */
const LOCK_FILE_MODE = 0o600;
const LOCK_FILE_FLAGS = constants.O_WRONLY | constants.O_APPEND | constants.O_CREAT | constants.O_NOFOLLOW;

/**
 * Takes a lock on the file or directory `path` (a missing file is created). `shared` and `exclusive` locks exclude each other, and so do
 * two `exclusive` locks. A held lock does not keep the event loop alive. Throws LockError, which names the holder on timeout.
 * @param waitSeconds 0: returns `null` at once if another process holds the lock.
 * @param stopping ends the wait with a LockError. It does not release a lock that was taken.
 */
export async function acquireLock(
  path: string,
  mode: 'shared' | 'exclusive',
  waitSeconds: 0,
  stopping?: AbortSignal,
): Promise<Lock | null>;
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
  const timeout = waitSeconds === 0 ? ['--nonblock'] : ['--timeout', String(waitSeconds)];
  const flags = [`--${mode}`, ...timeout, '--conflict-exit-code', String(HELD_EXIT_CODE)];
  let file: number | null = openLockFile(path);
  const close = () => {
    if (file !== null) closeSync(file);
    file = null;
  };
  let failure = await flock(flags, file, stopping);
  for (let starts = 1; /^SIG(HUP|INT|TERM)$/.test(failure) && starts < STARTS_MAX; starts++)
    failure = await flock(flags, file, stopping);
  const isReplaced = failure === '' && wasReplaced(path, file!);
  if (failure === '' && !isReplaced) return { release: async () => close() };
  close();
  if (isReplaced) return acquireLock(path, mode, waitSeconds as 0, stopping);
  if (failure === 'held' && waitSeconds === 0) return null;
  if (failure === 'held')
    throw new LockError(
      `Cannot lock ${path}: it was held for ${waitSeconds} s, now by ${await describeHolder(path)}`,
      'end that process, or try again',
    );
  throw new LockError(`Cannot lock ${path}: ${failure}`);
}

/** Locks an open file. Resolves with an empty text, or with why not: `held`, a signal, or a message. */
function flock(flags: string[], file: number, stopping: AbortSignal | undefined): Promise<string> {
  // `detached` gives the helper its own session, so Ctrl-C in a terminal does not reach it.
  const helper = spawn('flock', [...flags, '3'], {
    cwd: '/',
    detached: true,
    stdio: ['ignore', 'ignore', 'pipe', file],
  });
  let complaint = '';
  // `stderr` is absent when no descriptor is left; the event `error` follows.
  helper.stderr?.on('data', (bytes) => {
    complaint += bytes;
  });
  const stop = () => helper.kill('SIGKILL');
  if (stopping?.aborted) stop();
  stopping?.addEventListener('abort', stop);
  return new Promise<string>((resolve) => {
    helper.once('error', (error: NodeJS.ErrnoException) =>
      resolve(error.code === 'ENOENT' ? 'the command flock is missing; install the package util-linux' : error.message),
    );
    helper.once('close', (code, signal) => {
      if (code === 0) resolve('');
      else resolve(code === HELD_EXIT_CODE ? 'held' : (signal ?? (complaint.trim() || `exit code ${code}`)));
    });
  }).finally(() => stopping?.removeEventListener('abort', stop));
}

/** Opens the file, or creates it, or opens the directory at the path. */
function openLockFile(path: string): number {
  try {
    return openSync(path, LOCK_FILE_FLAGS, LOCK_FILE_MODE);
  } catch (error) {
    try {
      if (statSync(path).isDirectory()) return openSync(path, constants.O_RDONLY | constants.O_DIRECTORY);
    } catch {
      // The first error names the reason.
    }
    throw new LockError(`Cannot lock ${path}: ${(error as Error).message}`);
  }
}

/** Whether the path names another file now, which another process can lock: the previous holder has removed the file that was opened. */
function wasReplaced(path: string, file: number): boolean {
  const opened = fstatSync(file);
  const found = statSync(path, { throwIfNoEntry: false });
  return found === undefined ? opened.isFile() : found.ino !== opened.ino || found.dev !== opened.dev;
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

/** The process that holds the lock; null if none holds it, or the process is hidden: only root sees the files of other users' processes. */
async function holderOf(path: string): Promise<number | null> {
  const { dev, ino } = await stat(path);
  for (const pid of (await readdir('/proc')).map(Number).filter((pid) => pid > 0)) {
    for (const file of await readdir(`/proc/${pid}/fd`).catch(() => [])) {
      const open = await stat(`/proc/${pid}/fd/${file}`).catch(() => null);
      if (open?.ino !== ino || open.dev !== dev) continue;
      // `lock:	1: FLOCK  ADVISORY  WRITE 4242 08:01:1311 0 EOF`
      const facts = await readFile(`/proc/${pid}/fdinfo/${file}`, 'utf8').catch(() => '');
      if (/^lock:.* FLOCK /m.test(facts)) return pid;
    }
  }
  return null;
}
