/** One setup at a time in a folder: concurrent `npm start` and `npm test` must not overwrite each other's node_modules and dist. */
import { spawnSync } from 'node:child_process';
import { closeSync, mkdirSync, openSync } from 'node:fs';
import { join } from 'node:path';
import { Refusal } from './run.mjs';

/**
 * Runs `work` while holding the lock of the folder `root`. Prints a message when it has to wait.
 * Uses the kernel's lock (flock) instead of a file with a process id: it is released when its process ends, so it is never stale.
 */
export async function withLock(root, work) {
  mkdirSync(join(root, 'dist'), { recursive: true });
  const file = openSync(join(root, 'dist', '.setup.lock'), 'w');
  try {
    if (!flock(file, ['--nonblock'])) {
      console.log('Another set-up is running in this directory; waiting for it.');
      if (!flock(file, [])) throw new Refusal('The lock dist/.setup.lock could not be taken; try again.');
    }
    return await work();
  } finally {
    closeSync(file);
  }
}

/** The lock belongs to the open file, which is shared with the flock program: it stays held after that program ends. */
function flock(file, options) {
  const { status, error } = spawnSync('flock', [...options, '3'], { stdio: ['ignore', 'ignore', 'inherit', file] });
  if (error) throw new Refusal('The command flock is missing; install the package util-linux and try again.');
  return status === 0;
}
