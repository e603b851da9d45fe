/** Start parameters of a serving process: entry file, Node flags and user. */
import cluster from 'node:cluster';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ServingUser } from './serving-user.ts';

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
const gcFlags = ['--single-threaded-gc', '--no-allocation-site-pretenuring'];

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
