/** How a serving process is started: from which file, with which flags of Node, as which user. */
import cluster from 'node:cluster';
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';
import type { ServingUser } from './serving-user.ts';

/**
 * The compiled main.js, by the path that Weir was started by. Where that path goes through a symbolic link to a release, the link is followed
 * at each fork: once it leads to another release, new processes run that one.
 * @param own real path of the main.js beside this build.
 * @param startedBy `process.argv[1]`. A link to weir.js itself (npx, /usr/local/bin) leads to no main.js: then it is `own`.
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
 * Helper threads of the collector take cores from Postgres: without them a request costs about 9 % less CPU. A larger nursery
 * (--max-semi-space-size=32) made no difference beside that, and cost 28 MB a process (A/B, 7 rounds each, two cores).
 *
 * Allocation sites whose objects outlive a scavenge get the old space as their own. Those of a request do so when the machine is
 * slow for a moment, and from then on its garbage waits for a mark-compact: 200 to 235 MB in 4 of 15 runs, 150 to 163 MB in 9 of 9 without.
 */
const gcFlags = ['--single-threaded-gc', '--no-allocation-site-pretenuring'];

/**
 * All processes that are forked from now on run `entryFile`, which is looked up at each fork.
 * @param user null: our own.
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
