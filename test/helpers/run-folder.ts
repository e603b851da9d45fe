/** One folder for all that a run of the tests writes and starts, so that nothing is left of it however it ends. */
import { chmodSync, mkdtempSync, readdirSync, readFileSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';

/** A Postgres that is told to end takes its shared memory along; it does so within moments. */
const PATIENCE_MS = 20_000;
const LOOK_EVERY_MS = 50;

/**
 * Makes the folder and names it to everything that is started from now on, as TMPDIR. Returns how to end what still runs there and
 * to remove it, which the end of this process does too: vitest does not tear down when a signal ends it.
 */
export function openRunFolder(): () => void {
  const folder = mkdtempSync(join(tmpdir(), 'weir-run-'));
  // As root, Postgres runs as another user, who has to walk in.
  chmodSync(folder, 0o711);
  process.env.TMPDIR = folder;
  let closed = false;
  const close = () => {
    if (closed) return;
    closed = true;
    endAll(folder);
    rmSync(folder, { recursive: true, force: true });
  };
  process.once('exit', close);
  // To the other signals vitest listens itself.
  process.once('SIGHUP', () => process.exit(129));
  return close;
}

/** At the exit of a process nothing can be awaited: it looks, and sleeps in between. */
function endAll(folder: string): void {
  const endMs = performance.now() + PATIENCE_MS;
  const asleep = new Int32Array(new SharedArrayBuffer(4));
  for (let left = runningIn(folder); left.length > 0 && performance.now() < endMs; left = runningIn(folder)) {
    for (const { pid, isPostgres } of left) signal(pid, isPostgres ? 'SIGQUIT' : 'SIGKILL');
    Atomics.wait(asleep, 0, 0, LOOK_EVERY_MS);
  }
}

/** Whoever has the folder on its command line or in its environment, but us. */
function runningIn(folder: string): { pid: number; isPostgres: boolean }[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name));
  return pids
    .map((pid) => ({ pid: Number(pid), words: wordsOf(pid, 'cmdline'), environment: wordsOf(pid, 'environ') }))
    .filter(({ words, environment }) => words.includes(folder) || environment.includes(folder))
    .filter(({ pid }) => pid !== process.pid)
    .map(({ pid, words }) => ({ pid, isPostgres: words.split('\0')[0]!.endsWith('/postgres') }));
}

/** Empty for a process of somebody else, or one that is gone. */
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
    // It has just ended by itself.
    if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error;
  }
}
