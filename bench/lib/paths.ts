/** Paths, relative to the compiled form of this file. */
import { fileURLToPath } from 'node:url';

/** The root folder of the project. */
export const projectRoot = fileURLToPath(new URL('../../../', import.meta.url));
export const weirFile = fileURLToPath(new URL('../../server/cli/weir.js', import.meta.url));
export const hmacWorkerFile = fileURLToPath(new URL('../../workers/hmac.js', import.meta.url));
/** Each run appends one line here, to one file per scenario. */
export const resultsDirectory = fileURLToPath(new URL('../../../bench/results/', import.meta.url));

export function peerFile(name: string): string {
  return fileURLToPath(new URL(`../peers/${name}.js`, import.meta.url));
}
