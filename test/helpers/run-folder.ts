/** One directory for everything that a test run writes and starts, so that nothing is left behind. */
import { spawnSync } from 'node:child_process';
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync, statfsSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A file system in memory, where Linux has one. */
const MEMORY = '/dev/shm';
/** A run of all tests uses up to 2 GiB. */
const MEMORY_MIN_BYTES = 4 * 1024 ** 3;

/** A stopping Postgres removes its shared memory; it does so quickly. */
const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 50;

/**
 * Makes the folder and names it to everything that is started from now on, as TMPDIR. Returns how to end what still runs there and
 * to remove it, which the end of this process does too: vitest does not tear down when a signal ends it.
 */
export function openRunFolder(): () => void {
  const folder = mkdtempSync(join(parent(), 'weir-run-'));
  // As root, Postgres runs as another user, who needs access.
  chmodSync(folder, 0o711);
  process.env.TMPDIR = folder;
  let closed = false;
  const close = () => {
    if (closed) return;
    closed = true;
    endAll(folder);
    unmountAll(folder);
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', close);
  // vitest handles the other signals itself.
  process.once('SIGHUP', () => process.exit(129));
  return close;
}

/**
 * Memory if there is room, otherwise the directory for temporary files. A database for a test, created and dropped, takes 18 ms of CPU
 * time in memory; on ext4, which creates and removes its 526 files, it took 20 to 580 ms.
 */
function parent(): string {
  try {
    const { bavail, bsize } = statfsSync(MEMORY);
    return bavail * bsize >= MEMORY_MIN_BYTES ? MEMORY : tmpdir();
  } catch {
    return tmpdir();
  }
}

/** Nothing can be awaited at the exit of a process: poll with sleeps. */
function endAll(folder: string): void {
  const endMs = performance.now() + PATIENCE_MS;
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  for (let left = runningIn(folder); left.length > 0 && performance.now() < endMs; left = runningIn(folder)) {
    for (const { pid, isPostgres } of left) {
      signal(pid, isPostgres ? 'SIGQUIT' : 'SIGKILL');
      // A frozen one does not end before.
      signal(pid, 'SIGCONT');
    }
    Atomics.wait(asleep, 0, 0, LOOK_EVERY_MS);
  }
}

/** Small disks of tests that were interrupted. */
function unmountAll(folder: string): void {
  const mounts = readFileSync('/proc/self/mounts', 'utf8').split('\n');
  for (const [, at] of mounts.map((line) => line.split(' ')))
    if (at?.startsWith(`${folder}/`)) spawnSync('umount', ['--lazy', at]);
}

/** Other processes with the directory on their command line or in their environment. */
function runningIn(folder: string): { pid: number; isPostgres: boolean }[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids
    .map((pid) => ({ pid: Number(pid), words: wordsOf(pid, 'cmdline'), environment: wordsOf(pid, 'environ') }))
    .filter(({ words, environment }) => words.includes(folder) || environment.includes(folder))
    .filter(({ pid }) => pid !== process.pid)
    .map(({ pid, words }) => ({ pid, isPostgres: words.split('\0')[0]!.endsWith('/postgres') }));
}

/** Empty for a process of another user, or one that has exited. */
function wordsOf(pid: string, file: 'cmdline' | 'environ'): string {
  try {
    return readFileSync(`/proc/${pid}/${file}`, 'utf8');
  } catch {
    return '';
  }
}

function signal(pid: number, name: NodeJS.Signals): void {
  try {
    process.kill(pid, name);
  } catch (error) {
    // It has just exited.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
