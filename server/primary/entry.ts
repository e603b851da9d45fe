/** Which file a serving process is started from. */
import { realpathSync } from 'node:fs';
import { dirname, join } from 'node:path';

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
