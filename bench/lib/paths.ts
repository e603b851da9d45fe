/** Where things stand, seen from the compiled form of this file. */
import { fileURLToPath } from 'node:url';

/** The project's own folder. */
export const projectRoot = fileURLToPath(new URL('../../../', import.meta.url));
export const weirFile = fileURLToPath(new URL('../../server/cli/weir.js', import.meta.url));
export const hmacWorkerFile = fileURLToPath(new URL('../../workers/hmac.js', import.meta.url));
/** A line a run is added here, one file a scenario. */
export const resultsDirectory = fileURLToPath(new URL('../../../bench/results/', import.meta.url));

export function peerFile(name: string): string {
  return fileURLToPath(new URL(`../peers/${name}.js`, import.meta.url));
}
