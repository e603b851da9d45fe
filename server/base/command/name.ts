/** How to call the command line on this machine, for texts that name a command. */
import { realpathSync } from 'node:fs';
import { delimiter, join } from 'node:path';
import { builtFile } from '../files/build.ts';

let found: string | undefined;

/** `weir` or `npx --no weir`, see `commandOn`. */
export function weirCommand(): string {
  found ??= commandOn(process.env.PATH ?? '', builtFile('server/cli/weir.js'));
  return found;
}

/** Folders that npm and npx add to the PATH of the programs that they run. The PATH of a shell lacks them. */
const ADDED_BY_NPM = /(^|\/)node_modules\/(\.bin|.*\/node-gyp-bin)$/;

/**
 * `weir` if the first program of that name on `path` is `entry`, as in the container image; else `npx --no weir`, which works in Weir's
 * directory and downloads nothing. The registry's package `weir` is another program.
 */
export function commandOn(path: string, entry: string): string {
  const ofShell = path.split(delimiter).filter((directory) => !ADDED_BY_NPM.test(directory));
  const [first] = ofShell.flatMap((directory) => targetOf(join(directory, 'weir')) ?? []);
  return first !== undefined && first === targetOf(entry) ? 'weir' : 'npx --no weir';
}

/** The path with all links resolved; undefined if it does not exist. */
function targetOf(path: string): string | undefined {
  try {
    return realpathSync(path);
  } catch {
    return undefined;
  }
}
