/** Paths of the files that the benches run, read or write. They run as a bundle below dist/. */
import { join } from 'node:path';
import { buildFolder, builtFile } from '../../server/base/files/build.ts';

/** The root folder of the project. */
export const projectRoot = join(buildFolder(), '..');
/** Each run appends one line here, to one file per scenario. */
export const resultsDirectory = join(projectRoot, 'bench/results');

/** Path of a contestant, a program in bench/peers. */
export function peerFile(name: string): string {
  return builtFile(`bench/peers/${name}.js`);
}
