/** Folders that the benches read or write. They run as a bundle below dist/. */
import { join } from 'node:path';
import { buildFolder } from '../../server/base/files/build.ts';

/** The root folder of the project. */
export const projectRoot = join(buildFolder(), '..');
/** Each run appends one line here, to one file per scenario. */
export const resultsDirectory = join(projectRoot, 'bench/results');
